// States before each chunk, in place of those after it. See core/workloads/src/ops/ssm_scan/chunked.rs.
//
// ssm_scan_pass  a piece of a head's state per thread, chunk by chunk; the last state has its rows along the head dim

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

// Chunks whose states a thread reads before it uses the first.
constexpr unsigned AT_ONCE = 4;

extern "C" __global__ void __launch_bounds__(THREADS)
    ssm_scan_pass(const float* __restrict__ totals, float* __restrict__ states, float* __restrict__ state) {
    constexpr unsigned pieces = N * D / WIDTH;
    const u64 index = flat_workgroup() * THREADS + threadIdx.x, of_head = index / pieces;
    if (of_head >= (u64)SEQUENCES * HEADS) return;
    const unsigned piece_at = index % pieces;
    const u64 first = of_head / HEADS * CHUNKS * HEADS + of_head % HEADS;
    piece running = piece_of(0.0f);
#pragma unroll 1
    for (unsigned begin = 0; begin < CHUNKS; begin += AT_ONCE) {
        piece own[AT_ONCE];
#pragma unroll
        for (unsigned i = 0; i < AT_ONCE; i++) {
            if (begin + i < CHUNKS) own[i] = load_floats(states, (first + (u64)(begin + i) * HEADS) * pieces + piece_at);
        }
#pragma unroll
        for (unsigned i = 0; i < AT_ONCE; i++) {
            if (begin + i >= CHUNKS) break;
            const u64 at = first + (u64)(begin + i) * HEADS;
            store_floats(states, at * pieces + piece_at, running);
            const float decay = expf(totals[at]);
#pragma unroll
            for (unsigned e = 0; e < WIDTH; e++) running.at[e] = fmaf(running.at[e], decay, own[i].at[e]);
        }
    }
    const unsigned n = piece_at * WIDTH / D, d = piece_at * WIDTH % D;
#pragma unroll
    for (unsigned e = 0; e < WIDTH; e++) state[(of_head * D + d + e) * N + n] = running.at[e];
}
