// Number of keys per digit in each stretch: first half of a pass of a radix sort. The definition is in core/ir/src/sort.rs.

@group(0) @binding(0) var<storage, read> keys: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<u32>;

var<workgroup> found: array<atomic<u32>, BINS>;

@compute @workgroup_size(THREADS)
fn sort_count(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    for (var bin = lane; bin < BINS; bin += THREADS) {
        atomicStore(&found[bin], 0u);
    }
    workgroupBarrier();
    for (var tile = 0u; tile < TILES; tile++) {
        let at = (group.x * TILES + tile) * THREADS + lane;
        if at < ITEMS {
            // Integers: the count does not depend on the order.
            atomicAdd(&found[(keys[at] >> SHIFT) % BINS], 1u);
        }
    }
    workgroupBarrier();
    for (var bin = lane; bin < BINS; bin += THREADS) {
        counts[group.x * BINS + bin] = atomicLoad(&found[bin]);
    }
}
