// Places of choices from the sorted order, and the first place of each expert. The definition is in
// core/workloads/src/ops/moe_route.

#import lib/launch
#import lib/sorted

@group(0) @binding(0) var<storage, read> sorted: array<u32>;
@group(0) @binding(1) var<storage, read> order: array<u32>;
@group(0) @binding(2) var<storage, read_write> slots: array<u32>;
@group(0) @binding(3) var<storage, read_write> offsets: array<u32>;

@compute @workgroup_size(THREADS)
fn moe_route_finish(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = flat_group(group, groups) * THREADS + thread;
    if at < ITEMS {
        slots[order[at]] = at;
    }
    if at <= EXPERTS {
        offsets[at] = first_at_least(at, 0u, ITEMS);
    }
}
