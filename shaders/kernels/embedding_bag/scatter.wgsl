// Gradients of bags added to the rows of their items, one element per thread, each read once. The definition is in
// core/workloads/src/ops/embedding_bag.

#import embedding/add
#import lib/launch

@group(0) @binding(0) var<storage, read> index: array<u32>;
@group(0) @binding(1) var<storage, read> offsets: array<u32>;
@group(0) @binding(2) var<storage, read> dout: array<elem>;
@group(0) @binding(3) var<storage, read_write> sums: array<atomic<u32>>;
#if WEIGHTED
@group(0) @binding(4) var<storage, read> weight: array<f32>;
#endif

@compute @workgroup_size(THREADS)
fn embedding_bag_scatter(
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
    let whole = f32(dout[at]);
    var share = 1.0;
    if MEAN && begin < end {
        share = 1.0 / f32(end - begin);
    }
    for (var item = begin; item < end; item++) {
        var factor = share;
#if WEIGHTED
        factor *= weight[item];
#endif
        add_to_sums(index[item] * PIECES + at % PIECES, factor * whole);
    }
}
