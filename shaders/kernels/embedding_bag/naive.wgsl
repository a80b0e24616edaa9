// Rows of a table combined bag by bag, one element per thread. The definition is in core/workloads/src/ops/embedding_bag.

#import lib/launch
#import lib/nan

@group(0) @binding(0) var<storage, read> index: array<u32>;
@group(0) @binding(1) var<storage, read> offsets: array<u32>;
@group(0) @binding(2) var<storage, read> table: array<elem>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
#if WEIGHTED
@group(0) @binding(4) var<storage, read> weight: array<f32>;
#endif

@compute @workgroup_size(THREADS)
fn embedding_bag_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let bag = at / PIECES;
    let begin = offsets[bag];
    let end = offsets[bag + 1u];
    var value = 0.0;
    for (var item = begin; item < end; item++) {
        var x = f32(table[index[item] * PIECES + at % PIECES]);
#if WEIGHTED
        x *= weight[item];
#endif
        if MAX && item > begin {
            value = maximum(value, x);
        } else {
            value += x;
        }
    }
    if MEAN && end > begin {
        value /= f32(end - begin);
    }
    out[at] = elem(value);
}
