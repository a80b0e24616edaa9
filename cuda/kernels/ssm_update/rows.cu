// Update of states by one token in pieces. The definition is in core/workloads/src/ops/ssm_update.rs.
//
// LANES neighbouring lanes of a warp are a team with ROWS rows of a head. A lane reads a piece of each row before it uses the first,
// and pieces of B and C once for all of them. A head has PARTS teams; the last may have fewer rows.

#include "lib/reduce.cuh"
#include "ssm_update/token.cuh"

constexpr unsigned TEAMS = THREADS / LANES;
constexpr u64 ALL_TEAMS = (u64)SEQUENCES * HEADS * PARTS;

extern "C" __global__ void __launch_bounds__(THREADS)
    ssm_update_rows(float* __restrict__ state, const elem* __restrict__ x, const elem* __restrict__ dt, const elem* __restrict__ b,
                    const elem* __restrict__ c, const float* __restrict__ heads,
#if GATED
                    const elem* __restrict__ z,
#endif
                    elem* __restrict__ out) {
    const u64 team = flat_workgroup() * TEAMS + threadIdx.x / LANES;
    const unsigned lane = threadIdx.x % LANES;
    // All lanes of a warp take part in its shuffles: teams past the last one, and rows past a head's last, read others' and store nothing.
    const bool exists = team < ALL_TEAMS;
    const unsigned at = exists ? team : ALL_TEAMS - 1, of_head = at / PARTS, first = at % PARTS * ROWS, head = of_head % HEADS;
    const u64 first_row = (u64)of_head * D;
    const unsigned shared_at = first_piece(of_head);
    float inputs[ROWS], sums[ROWS] = {};
    piece before[ROWS];
    const auto fetch = [&](unsigned i) {
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++) before[r] = load_floats(state, (first_row + min(first + r, D - 1)) * PIECES + i);
    };
    // Before the step is known.
    if (lane < PIECES) fetch(lane);
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) inputs[r] = load(x[first_row + min(first + r, D - 1)]);
    const float step = step_of(dt, heads, of_head), decay = expf(step * heads[head]);
    for (unsigned i = lane; i < PIECES; i += LANES) {
        if (i != lane) fetch(i);
        const piece right = load_piece(b, shared_at + i), left = load_piece(c, shared_at + i);
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++) {
            const float taken = step * inputs[r];
            piece next;
#pragma unroll
            for (unsigned e = 0; e < WIDTH; e++) {
                next.at[e] = fmaf(before[r].at[e], decay, taken * right.at[e]);
                sums[r] = fmaf(left.at[e], next.at[e], sums[r]);
            }
            if (exists && first + r < D) store_floats(state, (first_row + first + r) * PIECES + i, next);
        }
    }
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) sums[r] = lanes_sum(sums[r], LANES);
    // Lane r of a team gives the result of row r.
    const float skip = heads[HEADS + head];
#pragma unroll
    for (unsigned base = 0; base < ROWS; base += LANES) {
        float sum = 0.0f, input = 0.0f;
#pragma unroll
        for (unsigned r = base; r < min(base + LANES, ROWS); r++) {
            if (base + lane == r) {
                sum = sums[r];
                input = inputs[r];
            }
        }
        const unsigned row = first + base + lane;
        if (exists && base + lane < ROWS && row < D) {
            float result = result_of(sum, skip, input);
#if GATED
            result *= silu(load(z[first_row + row]));
#endif
            out[first_row + row] = to_elem(result);
        }
    }
}
