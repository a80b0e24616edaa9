// Each element of the gradients of maxima added to the winning row. The definition is in core/workloads/src/ops/embedding_bag.

#import embedding/add
#import lib/launch

@group(0) @binding(0) var<storage, read> index: array<u32>;
@group(0) @binding(1) var<storage, read> winner: array<u32>;
@group(0) @binding(2) var<storage, read> dout: array<elem>;
@group(0) @binding(3) var<storage, read_write> sums: array<atomic<u32>>;

@compute @workgroup_size(THREADS)
fn embedding_bag_won(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let item = winner[at];
    // An empty bag has no winner.
    if item < ITEMS {
        add_to_sums(index[item] * PIECES + at % PIECES, f32(dout[at]));
    }
}
