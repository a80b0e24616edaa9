// Averages of columns: the sum of all parts, divided by the number of rows. The definition is in
// core/workloads/src/ops/standard_scaler.rs.

#import lib/launch
#import lib/parts

@group(0) @binding(1) var<storage, read_write> average: array<f32>;

@compute @workgroup_size(32, DOWN)
fn standard_scaler_average(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let column = flat_group(group, groups) * 32u + local.x;
    let sum = parts_sum(column, local);
    if local.y == 0u && column < PART_COLUMNS {
        average[column] = SHARE * sum;
    }
}
