// Sums over a one-dimensional block of whole warps.

// Sum over the earlier threads. `of_warps` holds one number per warp. All threads must call, and none has read `of_warps` since a barrier.
template <unsigned warps>
__device__ __forceinline__ unsigned sum_before(unsigned own, unsigned (&of_warps)[warps]) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned upto = own;
#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2) {
        const unsigned more = __shfl_up_sync(0xFFFFFFFFu, upto, step);
        if (lane >= step) upto += more;
    }
    if (lane == 31) of_warps[warp] = upto;
    __syncthreads();
    unsigned before = upto - own;
#pragma unroll
    for (unsigned other = 0; other < warps; other++) before += other < warp ? of_warps[other] : 0;
    return before;
}
