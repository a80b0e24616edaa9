// Hash embedding by atomic additions, for a window of the output: OWNED groups from FIRST on. The definition is in
// core/workloads/src/ops/hash_embedding.
//
// hash_embedding_scatter  one thread per row, after the device's own fill has cleared the window
//
// WGSL has no floating-point atomics: the addition retries a compare-and-exchange on the bits until it succeeds.

#import lib/launch
#import lib/murmur

@group(0) @binding(0) var<storage, read_write> out: array<atomic<u32>>;
@group(0) @binding(1) var<storage, read> id: array<u32>;
@group(0) @binding(2) var<storage, read> group: array<u32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;

@compute @workgroup_size(THREADS)
fn hash_embedding_scatter(
    @builtin(workgroup_id) block: vec3<u32>,
    @builtin(num_workgroups) blocks: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(block, blocks) * THREADS + lane;
    if row >= ROWS {
        return;
    }
    let mine = group[row];
    if mine - FIRST >= OWNED {
        return;
    }
    let h = murmur_finalise(id[row]);
    let at = mine * DIM + (h & 0x7fffffffu) % DIM;
    let term = select(weight[row], -weight[row], h >> 31u == 1u);
    // Most columns are zero before their first row: the first attempt assumes zero, without a load.
    var seen = 0u;
    for (var tries = 0u; tries < 0x7fffffffu; tries++) {
        let tried = atomicCompareExchangeWeak(&out[at], seen, bitcast<u32>(bitcast<f32>(seen) + term));
        if tried.exchanged {
            break;
        }
        seen = tried.old_value;
    }
}
