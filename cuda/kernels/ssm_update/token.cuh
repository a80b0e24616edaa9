// Numbers of a head in an update of states by one token. See core/workloads/src/ops/ssm_update.rs.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"
#include "lib/softplus.cuh"

// Number of rows of all states.
constexpr u64 ALL_ROWS = (u64)SEQUENCES * HEADS * D;

// Step of a head of a sequence.
__device__ __forceinline__ float step_of(const elem* __restrict__ dt, const float* __restrict__ heads, unsigned of_head) {
    return softplus(load(dt[of_head]) + heads[2 * HEADS + of_head % HEADS]);
}

// First piece of B and C of a head of a sequence.
__device__ __forceinline__ unsigned first_piece(unsigned of_head) {
    return (of_head / HEADS * GROUPS + of_head % HEADS / (HEADS / GROUPS)) * PIECES;
}

// Result of a row from its sum, the skip of its head and its input.
__device__ __forceinline__ float result_of(float sum, float skip, float input) { return fmaf(skip, input, sum); }
