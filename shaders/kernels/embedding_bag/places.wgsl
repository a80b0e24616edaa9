// Bag of each item, or an invalid number outside all bags, and the item's share of its bag's mean. The definition is in
// core/workloads/src/ops/embedding_bag.

#import lib/launch

// Begins of bags.
@group(0) @binding(0) var<storage, read> sorted: array<u32>;
@group(0) @binding(1) var<storage, read_write> bag: array<u32>;
#if MEAN
@group(0) @binding(2) var<storage, read_write> share: array<f32>;
#endif

#import lib/sorted

@compute @workgroup_size(THREADS)
fn embedding_bag_places(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = flat_group(group, groups) * THREADS + lane;
    if item >= ITEMS {
        return;
    }
    // Bags tend to have similar sizes. The first bag that begins after the item follows the item's own.
    let guess = min(BAGS, u32(f32(item) * (f32(BAGS) / f32(ITEMS))));
    let mine = first_at_least(item + 1u, guess, BAGS + 1u) - 1u;
    bag[item] = mine;
#if MEAN
    if mine < BAGS {
        share[item] = 1.0 / f32(sorted[mine + 1u] - sorted[mine]);
    } else {
        share[item] = 0.0;
    }
#endif
}
