// Keys and their values moved to the place of a digit, by stretches. The definition is in core/workloads/src/ops/sort_by_key.rs.
//
// All keys of smaller digits precede the keys of a digit in a stretch, and those of this digit in earlier stretches. Keys are
// ranked THREADS at a time: each thread sets its bit in the mask of its digit, and counts the lower bits. The order of these
// operations has no effect, so the order of keys is the same in every run.

#import lib/before

alias summed = u32;

@group(0) @binding(0) var<storage, read> counts: array<u32>;
@group(0) @binding(1) var<storage, read> totals: array<u32>;
@group(0) @binding(2) var<storage, read> keys: array<u32>;
@group(0) @binding(3) var<storage, read> values: array<u32>;
@group(0) @binding(4) var<storage, read_write> sorted: array<u32>;
@group(0) @binding(5) var<storage, read_write> carried: array<u32>;

// Words of a mask.
const WORDS: u32 = THREADS / 32u;

// Place of the next key of each digit.
var<workgroup> next: array<u32, BINS>;
// Threads of each digit, as bits.
var<workgroup> masks: array<atomic<u32>, BINS * WORDS>;

@compute @workgroup_size(THREADS)
fn sort_by_key_place(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    var total = 0u;
    if lane < BINS {
        total = totals[lane];
    }
    let smaller = sum_before(lane, total);
    if lane < BINS {
        next[lane] = smaller + counts[group.x * BINS + lane];
    }

    let word = lane / 32u;
    let bit = 1u << (lane % 32u);
    for (var tile = 0u; tile < TILES; tile++) {
        for (var i = lane; i < BINS * WORDS; i += THREADS) {
            atomicStore(&masks[i], 0u);
        }
        workgroupBarrier();
        let at = (group.x * TILES + tile) * THREADS + lane;
        var key = 0u;
        var digit = 0u;
        if at < ITEMS {
            key = keys[at];
            digit = (key >> SHIFT) % BINS;
            atomicOr(&masks[digit * WORDS + word], bit);
        }
        workgroupBarrier();
        var rank = 0u;
        var alike = 0u;
        for (var i = 0u; i < WORDS; i++) {
            let mask = atomicLoad(&masks[digit * WORDS + i]);
            alike += countOneBits(mask);
            if i < word {
                rank += countOneBits(mask);
            } else if i == word {
                rank += countOneBits(mask & (bit - 1u));
            }
        }
        if at < ITEMS {
            let to = next[digit] + rank;
            sorted[to] = key;
            carried[to] = values[at];
        }
        // All threads know the places of their keys before the last key of each digit advances, and before masks are cleared.
        workgroupBarrier();
        if at < ITEMS && rank + 1u == alike {
            next[digit] += alike;
        }
    }
}
