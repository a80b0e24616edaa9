// Values gathered by the positions of the sorted keys. The definition is in core/workloads/src/ops/sort_by_key.rs.

#import lib/launch

@group(0) @binding(0) var<storage, read> order: array<u32>;
@group(0) @binding(1) var<storage, read> values: array<u32>;
@group(0) @binding(2) var<storage, read_write> carried: array<u32>;

@compute @workgroup_size(THREADS)
fn sort_by_key_fetch(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < ITEMS {
        carried[at] = values[order[at]];
    }
}
