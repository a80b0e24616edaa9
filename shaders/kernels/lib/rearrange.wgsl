// Elements moved from one order to another, in pieces: N0 × N1 × N2 rows of N3 pieces. The definition is in
// core/ir/src/rearrange.rs.

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> given: array<stored>;
@group(0) @binding(1) var<storage, read_write> moved: array<stored>;

@compute @workgroup_size(THREADS)
fn rearrange(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let row = at / N3;
    let i0 = row / (N1 * N2);
    let i1 = row / N2 % N1;
    let i2 = row % N2;
    let i3 = at % N3;
    moved[FIRST_TO + i0 * TO0 + i1 * TO1 + i2 * TO2 + i3] = given[FIRST_FROM + i0 * FROM0 + i1 * FROM1 + i2 * FROM2 + i3];
}
