// Gradients added to the looked-up rows, one element per thread. The definition is in core/workloads/src/ops/embedding.
//
// WGSL has no floating-point atomics: the addition retries a compare-and-exchange on the bits until it succeeds. The order of
// additions varies from run to run, and with it the last bits of the sums.

#import embedding/add
#import lib/launch

@group(0) @binding(0) var<storage, read> index: array<u32>;
@group(0) @binding(1) var<storage, read> dout: array<elem>;
@group(0) @binding(2) var<storage, read_write> sums: array<atomic<u32>>;

@compute @workgroup_size(THREADS)
fn embedding_scatter(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let item = FIRST + at / PIECES * STEP;
    let row = index[item] + item % TABLES * TABLE_ROWS;
    add_to_sums(row * PIECES + at % PIECES, f32(dout[item * PIECES + at % PIECES]));
}
