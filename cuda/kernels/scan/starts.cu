// Start value of each stretch: the sum of all earlier stretches, by one block. The definition is in
// core/workloads/src/ops/scan.rs.

// Parts per thread, neighbours.
constexpr unsigned OWN = MOST_PARTS / THREADS;

extern "C" __global__ void __launch_bounds__(THREADS) scan_starts(float* __restrict__ parts) {
    __shared__ float sums[THREADS];
    const unsigned lane = threadIdx.x;
    float own[OWN], mine = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        own[i] = mine;
        if (lane * OWN + i < PARTS) mine += parts[lane * OWN + i];
    }
    // Sums over all threads up to this one: each step sums twice as many neighbours.
    sums[lane] = mine;
    __syncthreads();
    for (unsigned step = 1; step < THREADS; step *= 2) {
        const float more = lane >= step ? sums[lane - step] : 0.0f;
        __syncthreads();
        sums[lane] += more;
        __syncthreads();
    }
    const float before = lane > 0 ? sums[lane - 1] : 0.0f;
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        if (lane * OWN + i < PARTS) parts[lane * OWN + i] = before + own[i];
    }
}
