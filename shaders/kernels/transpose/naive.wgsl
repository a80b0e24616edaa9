// Transpose, one element per thread. The definition is in core/workloads/src/ops/transpose.rs.

#import lib/launch

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;

@compute @workgroup_size(THREADS)
fn transpose_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= MATRICES * ROWS * COLUMNS {
        return;
    }
    let row = at / COLUMNS;
    let column = at % COLUMNS;
    out[(row / ROWS * COLUMNS + column) * ROWS + row % ROWS] = x[at];
}
