// One warpgroup's product of 64 x K and K x N, with A and B lying in every way that the instruction takes.

#include "hopper/patience.cuh"
#include "lib/tma.cuh"
#include "lib/wgmma.cuh"

// A is [64][K] in shared memory, [K][64] there, or [64][K] in registers.
constexpr unsigned ALONG_K = 0, ACROSS_K = 1, IN_REGISTERS = 2;

constexpr unsigned A_BYTES = 64 * K * sizeof(elem);
constexpr unsigned B_BYTES = (B_ACROSS_K ? (N + 63) / 64 * 64 : N) * K * sizeof(elem);

extern "C" __global__ void __launch_bounds__(128, 1)
    product(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const elem* __restrict__ rows,
            float* __restrict__ c) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ mbarrier full;
    unsigned char *const left = memory, *const right = memory + A_BYTES;
    if (shared_address(memory) % 1024 != 0) __trap();
    if (threadIdx.x == 0) {
        mbarrier_begin(&full, 1);
        mbarrier_begun();
        mbarrier_expect(&full, A_BYTES + B_BYTES);
        for (unsigned k = 0; k < (A == ACROSS_K ? 64 : K); k += 64) {
            tma_load(left + k * 128, a, &full, (int)k, 0);
        }
        for (unsigned i = 0; i < (B_ACROSS_K ? N : K); i += 64) {
            tma_load(right + i * (B_ACROSS_K ? K : N) * sizeof(elem), b, &full, (int)i, 0);
        }
    }
    __syncthreads();
    wait_or_trap(&full, 0);

    // The first product does not add to this.
    float d[N / 2];
#pragma unroll
    for (unsigned i = 0; i < N / 2; i++) d[i] = 1e30f;
    unsigned pairs[K / 16][4];
    if constexpr (A == IN_REGISTERS) {
#pragma unroll
        for (unsigned k = 0; k < K; k += 16) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                pairs[k / 16][i] = *(const unsigned*)(rows + wgmma_row(2 * i) * K + k + wgmma_column(2 * i));
            }
        }
    }
    wgmma_hold(d);
    wgmma_fence();
#pragma unroll
    for (unsigned k = 0; k < K; k += 16) {
        const u64 from_b = B_ACROSS_K ? wgmma_across_k(right, K) + k / 16 * WGMMA_NEXT_ACROSS_K
                                      : wgmma_along_k(right + k / 64 * N * 128) + k % 64 / 16 * WGMMA_NEXT_ALONG_K;
        if constexpr (A == IN_REGISTERS) {
            wgmma<B_ACROSS_K>(d, pairs[k / 16], from_b, k > 0);
        } else {
            const u64 from_a = A == ACROSS_K ? wgmma_across_k(left, K) + k / 16 * WGMMA_NEXT_ACROSS_K
                                             : wgmma_along_k(left + k / 64 * 8192) + k % 64 / 16 * WGMMA_NEXT_ALONG_K;
            wgmma<A == ACROSS_K, B_ACROSS_K>(d, from_a, from_b, k > 0);
        }
    }
    wgmma_commit();
    wgmma_wait<0>(d);
#pragma unroll
    for (unsigned i = 0; i < N / 2; i++) c[wgmma_row(i) * N + wgmma_column(i)] = d[i];
}
