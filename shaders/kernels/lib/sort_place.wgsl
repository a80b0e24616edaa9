// Keys and their positions moved to the place of a digit, in stable order: second half of a pass of a radix sort. The definition
// is in core/workloads/src/sort.rs.
//
// A workgroup moves the stretch that it counted. All keys of smaller digits precede its keys of a digit, and those of this digit
// in earlier stretches. Keys are ranked THREADS at a time, each by comparison with the others. Nothing is atomic, so the order is
// the same in every run.

#import lib/before

alias summed = u32;

@group(0) @binding(0) var<storage, read> counts: array<u32>;
@group(0) @binding(1) var<storage, read> keys: array<u32>;
@group(0) @binding(2) var<storage, read_write> sorted: array<u32>;
@group(0) @binding(3) var<storage, read_write> order: array<u32>;
// Positions of the keys before the first pass, which generates them itself.
#if LATER
@group(0) @binding(4) var<storage, read> before: array<u32>;
#endif

// Digits per thread, neighbours.
const OWN: u32 = BINS / THREADS;
// Digit of an absent key.
const NONE: u32 = BINS;

// Place of the next key of each digit.
var<workgroup> next: array<u32, BINS>;

fn position(at: u32) -> u32 {
#if LATER
    return before[at];
#endif
#if FIRST
    return at;
#endif
}

@compute @workgroup_size(THREADS)
fn sort_place(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    var sum = 0u;
    for (var i = 0u; i < OWN; i++) {
        let bin = lane * OWN + i;
        var everywhere = 0u;
        var earlier = 0u;
        for (var stretch = 0u; stretch < STRETCHES; stretch++) {
            let count = counts[stretch * BINS + bin];
            everywhere += count;
            earlier += select(0u, count, stretch < group.x);
        }
        next[bin] = sum + earlier;
        sum += everywhere;
    }
    let smaller = sum_before(lane, sum);
    for (var i = 0u; i < OWN; i++) {
        next[lane * OWN + i] += smaller;
    }
    workgroupBarrier();

    for (var tile = 0u; tile < TILES; tile++) {
        let at = (group.x * TILES + tile) * THREADS + lane;
        var key = 0u;
        var digit = NONE;
        if at < ITEMS {
            key = keys[at];
            digit = (key >> SHIFT) % BINS;
        }
        of_threads[lane] = digit;
        workgroupBarrier();
        var rank = 0u;
        var alike = 0u;
        for (var other = 0u; other < THREADS; other++) {
            let same = select(0u, 1u, of_threads[other] == digit);
            alike += same;
            rank += select(0u, same, other < lane);
        }
        if at < ITEMS {
            let to = next[digit] + rank;
            sorted[to] = key;
            order[to] = position(at);
        }
        // All threads know the places of their keys before the last key of each digit advances.
        workgroupBarrier();
        if at < ITEMS && rank + 1u == alike {
            next[digit] += alike;
        }
    }
}
