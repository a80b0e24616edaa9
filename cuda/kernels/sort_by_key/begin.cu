// Begin of the keys of a digit in each stretch, among all keys of this digit: its counts are scanned over the stretches, by a
// block per digit. The definition is in core/workloads/src/ops/sort_by_key.rs.

// Stretches per thread, neighbours.
constexpr unsigned OWN = MOST_PARTS / THREADS;

extern "C" __global__ void __launch_bounds__(THREADS)
    sort_by_key_begin(unsigned* __restrict__ counts, unsigned* __restrict__ totals) {
    __shared__ unsigned sums[THREADS];
    const unsigned lane = threadIdx.x, digit = blockIdx.x;
    unsigned own[OWN], mine = 0;
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        own[i] = mine;
        if (lane * OWN + i < STRETCHES) mine += counts[(lane * OWN + i) * BINS + digit];
    }
    sums[lane] = mine;
    __syncthreads();
    for (unsigned step = 1; step < THREADS; step *= 2) {
        const unsigned more = lane >= step ? sums[lane - step] : 0;
        __syncthreads();
        sums[lane] += more;
        __syncthreads();
    }
    const unsigned before = sums[lane] - mine;
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        if (lane * OWN + i < STRETCHES) counts[(lane * OWN + i) * BINS + digit] = before + own[i];
    }
    if (lane == THREADS - 1) totals[digit] = sums[lane];
}
