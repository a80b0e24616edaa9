// Indices shifted into one concatenated table, by the rows of the earlier tables. The definition is in
// core/workloads/src/ops/embedding_select.

#import lib/launch

@group(0) @binding(0) var<storage, read> index: array<u32>;
@group(0) @binding(1) var<storage, read_write> shifted: array<u32>;

@compute @workgroup_size(THREADS)
fn embedding_select_flatten(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        shifted[at] = index[at] + at % TABLES * TABLE_ROWS;
    }
}
