// Walsh–Hadamard transform of rows, one element of the result per thread. The definition is in core/workloads/src/ops/hadamard.rs.

#import lib/launch

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;

@compute @workgroup_size(THREADS)
fn hadamard_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let column = at % COLUMNS;
    let base = at - column;
    var sum = 0.0;
    for (var j = 0u; j < COLUMNS; j++) {
        let term = f32(x[base + j]);
        sum += select(term, -term, countOneBits(j & column) % 2u == 1u);
    }
    out[at] = elem(sum * SCALE);
}
