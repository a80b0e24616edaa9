// Backward pass of a normalisation of rows, with the next rows under way in shared memory. From compute capability 8.0 on.
//
// PARTS blocks of TEAMS teams process all rows. A team of LANES threads takes AT_ONCE neighbouring rows in a step, and has the
// rows of the next STAGES - 1 steps under way by asynchronous copies. A thread reads its own copies only, so that they need no
// barrier. It has one piece of 16 bytes of each row. Normalised elements and scaled gradients stay in registers, and so does the
// part of the gradients of gamma and beta. LANES is a multiple of 32.
//
// CENTRED: the mean of a row is subtracted, and beta has a gradient. ADDS: rows of a further gradient are added to the results.

#include "lib/async_copy.cuh"
#include "lib/launch.cuh"
#include "lib/pieces.cuh"

constexpr unsigned row_pieces = COLUMNS / WIDTH;
constexpr unsigned team_warps = LANES / 32;
// Sums over a row that a step needs, for all its rows.
constexpr unsigned step_sums = (CENTRED ? 2 : 1) * AT_ONCE;
// Threads that hold the same of these sums.
constexpr unsigned sharing = 32 / step_sums;
static_assert(LANES % 32 == 0 && TEAMS * LANES == THREADS && TEAMS < 16, "teams are whole warps with a barrier each");
static_assert((AT_ONCE & (AT_ONCE - 1)) == 0 && step_sums <= 32 && STAGES >= 2, "sums are halved between lanes");
static_assert(STAGES * AT_ONCE * 2 * sizeof(stored) >= sizeof(piece), "parts of threads must fit into the stages");
// Rows of the further gradient under way.
constexpr unsigned added_rows = ADDS ? AT_ONCE : 0;

// Sums over the lanes of a warp. Lane `l` gets sum `l / sharing`.
__device__ __forceinline__ float divided_sums(float (&terms)[step_sums]) {
    const unsigned lane = threadIdx.x % 32;
    unsigned step = 16;
#pragma unroll
    for (unsigned half = step_sums / 2; half > 0; half /= 2, step /= 2) {
        const bool upper = lane & step;
#pragma unroll
        for (unsigned i = 0; i < half; i++) {
            const float given = upper ? terms[i] : terms[i + half];
            terms[i] = (upper ? terms[i + half] : terms[i]) + __shfl_xor_sync(0xFFFFFFFFu, given, step);
        }
    }
    float sum = terms[0];
#pragma unroll
    for (unsigned apart = sharing / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, apart);
    return sum;
}

// Sums over the team, for each of its threads. All threads of the team must call, with the same `step`.
__device__ __forceinline__ void team_sums(float (&terms)[step_sums], unsigned step) {
    float sum = divided_sums(terms);
    if constexpr (team_warps > 1) {
        // Steps alternate between two places: the barrier of the next step ends the reads of this one.
        __shared__ float of_warps[TEAMS][2][step_sums][team_warps];
        const unsigned lane = threadIdx.x % 32, warp = threadIdx.x % LANES / 32, team = threadIdx.x / LANES;
        float(&mine)[step_sums][team_warps] = of_warps[team][step % 2];
        if (lane % sharing == 0) mine[lane / sharing][warp] = sum;
        asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(LANES) : "memory");
        sum = 0.0f;
#pragma unroll
        for (unsigned first = 0; first < team_warps; first += sharing) {
            const unsigned other = first + lane % sharing;
            if (other < team_warps) sum += mine[lane / sharing][other];
        }
#pragma unroll
        for (unsigned apart = sharing / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, apart);
    }
#pragma unroll
    for (unsigned i = 0; i < step_sums; i++) terms[i] = __shfl_sync(0xFFFFFFFFu, sum, i * sharing);
}

// Stores a row of `parts`: the sums over teams. All threads of the block must call, after their last copy.
__device__ __forceinline__ void store_parts(float* __restrict__ parts, const piece& mine, void* shared) {
    piece* const of_threads = reinterpret_cast<piece*>(shared);
    __syncthreads();
    of_threads[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x >= row_pieces) return;
    piece sum = of_threads[threadIdx.x];
    for (unsigned team = 1; team < TEAMS; team++) {
        const piece& other = of_threads[team * LANES + threadIdx.x];
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) sum.at[i] += other.at[i];
    }
    store_floats(parts, threadIdx.x, sum);
}

// Place of a piece of each row under way, by thread.
struct Stage {
    stored rows[2 * AT_ONCE + added_rows][THREADS];

    __device__ __forceinline__ stored& value(unsigned row) { return rows[row][threadIdx.x]; }
    __device__ __forceinline__ stored& gradient(unsigned row) { return rows[AT_ONCE + row][threadIdx.x]; }
    __device__ __forceinline__ stored& added(unsigned row) { return rows[2 * AT_ONCE + row][threadIdx.x]; }
};

__device__ __forceinline__ void backward_staged(const elem* __restrict__ x, const float* __restrict__ mean,
                                                const float* __restrict__ rstd, const elem* __restrict__ gamma,
                                                const elem* __restrict__ dout, elem* __restrict__ dx,
                                                float* __restrict__ parts, const elem* __restrict__ also = nullptr) {
    extern __shared__ uint4 shared[];
    Stage* const stages = reinterpret_cast<Stage*>(shared);
    const u64 part = flat_workgroup();
    if (part >= PARTS) return;
    const unsigned lane = threadIdx.x % LANES;
    const bool has_piece = lane < row_pieces;
    constexpr u64 stride = (u64)PARTS * TEAMS * AT_ONCE;
    const u64 begin = (part * TEAMS + threadIdx.x / LANES) * AT_ONCE;
    const auto fetch = [&](u64 first, Stage& to) {
#pragma unroll
        for (unsigned r = 0; r < AT_ONCE; r++) {
            const bool inside = first + r < ROWS && has_piece;
            const u64 from = inside ? (first + r) * row_pieces + lane : 0;
            copy_async(&to.value(r), reinterpret_cast<const stored*>(x) + from, inside);
            copy_async(&to.gradient(r), reinterpret_cast<const stored*>(dout) + from, inside);
            if constexpr (ADDS) copy_async(&to.added(r), reinterpret_cast<const stored*>(also) + from, inside);
        }
        close_copies();
    };
#pragma unroll
    for (unsigned stage = 0; stage < STAGES - 1; stage++) fetch(begin + stage * stride, stages[stage]);

    const piece factors = has_piece ? load_piece(gamma, lane) : piece_of(0.0f);
    piece dgamma = piece_of(0.0f), dbeta = piece_of(0.0f);
    float middles[AT_ONCE], scales[AT_ONCE];
    const auto look_up = [&](u64 first) {
#pragma unroll
        for (unsigned r = 0; r < AT_ONCE; r++) {
            const bool inside = first + r < ROWS;
            middles[r] = CENTRED && inside ? mean[first + r] : 0.0f;
            scales[r] = inside ? rstd[first + r] : 0.0f;
        }
    };
    look_up(begin);
    unsigned stage = 0, step = 0;
    for (u64 first = begin; first < ROWS; first += stride, step++) {
        wait_for_copies<STAGES - 2>();
        piece values[AT_ONCE], gradients[AT_ONCE];
        float terms[step_sums];
#pragma unroll
        for (unsigned i = 0; i < step_sums; i++) terms[i] = 0.0f;
#pragma unroll
        for (unsigned r = 0; r < AT_ONCE; r++) {
            values[r] = widened(stages[stage].value(r));
            gradients[r] = widened(stages[stage].gradient(r));
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) {
                float& value = values[r].at[i];
                float& gradient = gradients[r].at[i];
                value = CENTRED ? (value - middles[r]) * scales[r] : value * scales[r];
                dgamma.at[i] = fmaf(gradient, value, dgamma.at[i]);
                if (CENTRED) dbeta.at[i] += gradient;
                gradient *= factors.at[i];
                terms[r] = fmaf(gradient, value, terms[r]);
                if (CENTRED) terms[AT_ONCE + r] += gradient;
            }
        }
        // This thread has read the previous step's stage, which is the next to be written.
        fetch(first + (STAGES - 1) * stride, stages[stage == 0 ? STAGES - 1 : stage - 1]);
        team_sums(terms, step);
        float along[AT_ONCE], level[AT_ONCE], scale[AT_ONCE];
#pragma unroll
        for (unsigned r = 0; r < AT_ONCE; r++) {
            scale[r] = scales[r];
            along[r] = -scale[r] * (terms[r] / COLUMNS);
            level[r] = CENTRED ? -scale[r] * (terms[(CENTRED ? AT_ONCE : 0) + r] / COLUMNS) : 0.0f;
        }
        look_up(first + stride);
#pragma unroll
        for (unsigned r = 0; r < AT_ONCE; r++) {
            if (first + r >= ROWS || !has_piece) continue;
            piece result;
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) {
                const float moved = fmaf(values[r].at[i], along[r], gradients[r].at[i] * scale[r]);
                result.at[i] = CENTRED ? moved + level[r] : moved;
            }
            if constexpr (ADDS) {
                const piece other = widened(stages[stage].added(r));
#pragma unroll
                for (unsigned i = 0; i < WIDTH; i++) result.at[i] += other.at[i];
            }
            store_piece(dx, (first + r) * row_pieces + lane, result);
        }
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    wait_for_copies<0>();
    float* const mine = parts + part * (CENTRED ? 2 : 1) * COLUMNS;
    store_parts(mine, dgamma, shared);
    if constexpr (CENTRED) store_parts(mine + COLUMNS, dbeta, shared);
}
