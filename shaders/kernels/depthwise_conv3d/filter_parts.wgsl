// Gradients of the filters and of the bias from the parts of `filter`.

#import lib/launch
#import lib/parts

@group(0) @binding(1) var<storage, read_write> dw: array<elem>;
#if BIASED
@group(0) @binding(2) var<storage, read_write> dbias: array<elem>;
#endif

@compute @workgroup_size(32, DOWN)
fn depthwise_filter_parts(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let column = flat_group(group, groups) * 32u + local.x;
    let sum = parts_sum(column, local);
    if local.y == 0u && column < FILTERS {
        dw[column] = elem(sum);
    }
#if BIASED
    if local.y == 0u && column >= FILTERS && column < PART_COLUMNS { dbias[column - FILTERS] = elem(sum); }
#endif
}
