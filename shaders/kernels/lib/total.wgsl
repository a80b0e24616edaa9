// Sum of the partial results of all workgroups, times SCALE, always in the same order: PART_COLUMNS is one.

#import lib/parts

@group(0) @binding(1) var<storage, read_write> total: array<f32>;

@compute @workgroup_size(32, DOWN)
fn total_of_parts(@builtin(local_invocation_id) local: vec3<u32>) {
    let sum = parts_sum(local.x, local);
    if local.x == 0u && local.y == 0u {
        total[0] = SCALE * sum;
    }
}
