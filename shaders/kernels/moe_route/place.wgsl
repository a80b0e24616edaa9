// Places of choices: their rank in a stretch, after the tokens of the same expert in earlier stretches, and after all of earlier
// experts. The definition is in core/workloads/src/ops/moe_route.

#import lib/before
#import lib/launch

alias summed = u32;

@group(0) @binding(0) var<storage, read> counts: array<u32>;
@group(0) @binding(1) var<storage, read> totals: array<u32>;
@group(0) @binding(2) var<storage, read> experts: array<u32>;
@group(0) @binding(3) var<storage, read_write> slots: array<u32>;
@group(0) @binding(4) var<storage, read_write> order: array<u32>;
@group(0) @binding(5) var<storage, read_write> offsets: array<u32>;

// Experts per thread, neighbours.
const OWN: u32 = (EXPERTS + THREADS - 1u) / THREADS;

var<workgroup> starts: array<u32, EXPERTS>;

@compute @workgroup_size(THREADS)
fn moe_route_place(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups);
    var sum = 0u;
    for (var i = 0u; i < OWN; i++) {
        let expert = thread * OWN + i;
        if expert < EXPERTS {
            sum += totals[expert];
        }
    }
    var start = sum_before(thread, sum);
    for (var i = 0u; i < OWN; i++) {
        let expert = thread * OWN + i;
        if expert < EXPERTS {
            starts[expert] = start;
            if index == 0u {
                offsets[expert] = start;
            }
            start += totals[expert];
        }
    }
    if index == 0u && thread == 0u {
        offsets[EXPERTS] = ITEMS;
    }
    workgroupBarrier();
    for (var i = 0u; i < EACH; i++) {
        let at = (index * EACH + i) * THREADS + thread;
        if at < ITEMS {
            let expert = experts[at];
            let to = slots[at] + starts[expert] + counts[at / (STRETCH * CHOICES) * EXPERTS + expert];
            slots[at] = to;
            order[to] = at;
        }
    }
}
