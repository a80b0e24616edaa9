// Gradients of gamma and beta from the parts of `backward`.

#import lib/launch
#import lib/parts

@group(0) @binding(1) var<storage, read_write> dgamma: array<elem>;
@group(0) @binding(2) var<storage, read_write> dbeta: array<elem>;

@compute @workgroup_size(32, DOWN)
fn layernorm_parts(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let column = flat_group(group, groups) * 32u + local.x;
    let sum = parts_sum(column, local);
    if local.y == 0u && column < COLUMNS {
        dgamma[column] = elem(sum);
    } else if local.y == 0u && column < PART_COLUMNS {
        dbeta[column - COLUMNS] = elem(sum);
    }
}
