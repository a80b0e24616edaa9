// Keys and their positions moved to the place of a digit, in stable order: second half of a pass of a radix sort. The definition
// is in core/ir/src/sort.rs.
//
// A block moves the stretch that it counted. All keys of smaller digits precede its keys of a digit, and those of this digit in
// earlier stretches. Keys are ranked THREADS at a time, each by comparison with the others. Nothing is atomic, so the order is
// the same in every run.

#include "lib/launch.cuh"

// Digits per thread, neighbours.
constexpr unsigned OWN = BINS / THREADS;
// Digit of an absent key.
constexpr unsigned NONE = BINS;

extern "C" __global__ void __launch_bounds__(THREADS)
    sort_place(const unsigned* __restrict__ counts, const unsigned* __restrict__ keys, unsigned* __restrict__ sorted,
               unsigned* __restrict__ order
#if LATER
    , const unsigned* __restrict__ before
#endif
    ) {
    // Place of the next key of each digit.
    __shared__ unsigned next[BINS];
    // One number per thread: sums of counts, then digits.
    __shared__ unsigned shared_all[THREADS];
    const unsigned lane = threadIdx.x;
    unsigned sum = 0;
    for (unsigned i = 0; i < OWN; i++) {
        const unsigned bin = lane * OWN + i;
        unsigned everywhere = 0, earlier = 0;
#pragma unroll 8
        for (unsigned stretch = 0; stretch < STRETCHES; stretch++) {
            const unsigned count = counts[stretch * BINS + bin];
            everywhere += count;
            earlier += stretch < blockIdx.x ? count : 0;
        }
        next[bin] = sum + earlier;
        sum += everywhere;
    }
    // Sums over all digits of the earlier threads: each step sums twice as many neighbours.
    shared_all[lane] = sum;
    __syncthreads();
    for (unsigned step = 1; step < THREADS; step *= 2) {
        const unsigned more = lane >= step ? shared_all[lane - step] : 0;
        __syncthreads();
        shared_all[lane] += more;
        __syncthreads();
    }
    const unsigned smaller = shared_all[lane] - sum;
    for (unsigned i = 0; i < OWN; i++) next[lane * OWN + i] += smaller;
    __syncthreads();

    for (unsigned tile = 0; tile < TILES; tile++) {
        const u64 at = ((u64)blockIdx.x * TILES + tile) * THREADS + lane;
        const unsigned key = at < ITEMS ? keys[at] : 0;
        const unsigned digit = at < ITEMS ? (key >> SHIFT) % BINS : NONE;
        shared_all[lane] = digit;
        __syncthreads();
        unsigned rank = 0, alike = 0;
#pragma unroll 8
        for (unsigned other = 0; other < THREADS; other++) {
            const unsigned same = shared_all[other] == digit;
            alike += same;
            rank += other < lane ? same : 0;
        }
        if (at < ITEMS) {
            const unsigned to = next[digit] + rank;
            sorted[to] = key;
#if FIRST
            order[to] = (unsigned)at;
#endif
#if LATER
            order[to] = before[at];
#endif
        }
        // All threads know the places of their keys before the last key of each digit advances.
        __syncthreads();
        if (at < ITEMS && rank + 1 == alike) next[digit] += alike;
    }
}
