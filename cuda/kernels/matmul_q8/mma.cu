// GEMM with weights of 8 bits on tensor cores, for few rows of A. The definition is in core/workloads/src/ops/matmul_q8.rs.
//
// Weights are the left factor: a block of WARPS warps computes 32 columns of C and 8·TILES of its rows. Its warps share the depth
// in chunks of 128, and add their sums in shared memory at the end. A warp copies its chunks asynchronously, STAGES - 1 ahead, into
// stages of its own. Eight lanes copy a column of a chunk: a whole line.
//
// The depth may be summed in any order. The four lanes of a row of the left factor hold eight neighbours each: two words, of which
// each is the lane's part of one instruction. The right factor has the elements of A in the same order: one vector of eight.

#include "lib/async_copy.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"

#if __CUDA_ARCH__ >= 800 && !defined(ELEM_F32)

constexpr unsigned CHUNK_WORDS = 32, CHUNKS = WORDS / CHUNK_WORDS, BLOCK_N = 32, BLOCK_M = 8 * TILES;
// Vectors of four words in a column of a chunk, and in a stage.
constexpr unsigned PIECES = CHUNK_WORDS / 4, STAGE_PIECES = BLOCK_N * PIECES;
static_assert(WARPS * STAGES * STAGE_PIECES * 16 >= WARPS * BLOCK_M * (BLOCK_N + 1) * 4, "sums fit where stages were");

// Place of a vector in its stage. Lanes that read four neighbouring columns together touch different banks.
__device__ __forceinline__ unsigned place_of(unsigned col, unsigned piece) { return col * PIECES + (piece ^ col % 4 * 2); }

// Both pairs of neighbours of a word, exactly.
__device__ __forceinline__ void unpack(unsigned word, unsigned (&pairs)[2]) {
#if defined(ELEM_F16)
    // Bits of 1024 + 128 + number, less 1152.
    constexpr unsigned base = 0x64646464u, less = 0x64806480u;
    const unsigned raised = word ^ 0x80808080u;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(pairs[0]) : "r"(__byte_perm(raised, base, 0x4140)), "r"(less));
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(pairs[1]) : "r"(__byte_perm(raised, base, 0x4342)), "r"(less));
#else
    // Bits of 128 + the seven lower bits, less 128; for a negative number, whose upper bit is set, less 256.
    constexpr unsigned base = 0x43434343u, minus_one = 0xBF80BF80u;
    const unsigned lower = word & 0x7F7F7F7Fu, sign = word & 0x80808080u;
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
        const unsigned order = i == 0 ? 0x4140 : 0x4342;
        const unsigned raised = __byte_perm(lower, base, order), less = __byte_perm(sign, base, order);
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pairs[i]) : "r"(less), "r"(minus_one), "r"(raised));
    }
#endif
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 16 / WARPS)
    matmul_q8_mma(const elem* __restrict__ a, const unsigned* __restrict__ b, const elem* __restrict__ scale,
                  elem* __restrict__ c) {
    extern __shared__ uint4 shared[];
    constexpr unsigned across = (N + BLOCK_N - 1) / BLOCK_N, down = (M + BLOCK_M - 1) / BLOCK_M;
    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    // Tiles of the same columns follow each other, so that their weights come from the cache.
    const unsigned first_row = (unsigned)(index % down) * BLOCK_M, first_col = (unsigned)(index / down) * BLOCK_N;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, place = lane / 4, quarter = lane % 4;
    uint4* const stages = shared + warp * (STAGES * STAGE_PIECES);

    // Columns outside repeat the last one, and so do rows of A. Their sums are not stored.
    const auto inside = [&](unsigned col) { return N % BLOCK_N == 0 ? col : min(col, N - 1 - first_col); };
    const unsigned own = lane / PIECES, piece = lane % PIECES;
    const unsigned* const from = b + (u64)(first_col + inside(own)) * WORDS + 4 * piece;
    const auto copy = [&](unsigned chunk, unsigned stage) {
        if (chunk < CHUNKS) {
#pragma unroll
            for (unsigned i = 0; i < BLOCK_N; i += 32 / PIECES) {
                const u64 beyond = (u64)(N % BLOCK_N == 0 ? i : inside(own + i) - inside(own)) * WORDS;
                copy_async(stages + stage * STAGE_PIECES + place_of(own + i, piece), from + beyond + chunk * CHUNK_WORDS, true);
            }
        }
        // Past the end groups are empty, so that waits can count groups.
        close_copies();
    };
    // Elements of A and scales of the lane, and distances to those of its other rows and columns, which are constants where tiles
    // are whole.
    const auto within = [&](unsigned row) { return M % BLOCK_M == 0 ? row : min(row, M - 1 - first_row); };
    const elem* const left = a + (u64)(first_row + within(place)) * (4 * WORDS) + 8 * quarter;
    const elem* const factors = scale + (u64)(first_col + inside(place)) * GROUPS;
    u64 rows_beyond[TILES], cols_beyond[4];
#pragma unroll
    for (unsigned t = 0; t < TILES; t++) {
        rows_beyond[t] = (u64)(M % BLOCK_M == 0 ? 8 * t : within(place + 8 * t) - within(place)) * (4 * WORDS);
    }
#pragma unroll
    for (unsigned j = 0; j < 4; j++) {
        cols_beyond[j] = (u64)(N % BLOCK_N == 0 ? 8 * j : inside(place + 8 * j) - inside(place)) * GROUPS;
    }

    float sums[2][TILES][4] = {}, of_group[2][TILES][4] = {};
#pragma unroll
    for (unsigned s = 0; s + 1 < STAGES; s++) copy(warp + s * WARPS, s);
    unsigned stage = 0;
    for (unsigned chunk = warp; chunk < CHUNKS; chunk += WARPS) {
        float factor[4];
#pragma unroll
        for (unsigned j = 0; j < 4; j++) factor[j] = load(factors[cols_beyond[j] + chunk * CHUNK_WORDS / GROUP_WORDS]);
        wait_for_copies<STAGES - 2>();
        // The copies of all lanes have arrived, and all lanes have read the stage before this one, which is written next.
        __syncwarp();
        copy(chunk + (STAGES - 1) * WARPS, stage == 0 ? STAGES - 1 : stage - 1);
        const uint2* const packed = reinterpret_cast<const uint2*>(stages + stage * STAGE_PIECES);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
        for (unsigned unit = 0; unit < CHUNK_WORDS / 8; unit++) {
            uint4 right[TILES];
#pragma unroll
            for (unsigned t = 0; t < TILES; t++) {
                const elem* const eight = left + rows_beyond[t] + (u64)chunk * (4 * CHUNK_WORDS) + 32 * unit;
                right[t] = __ldg(reinterpret_cast<const uint4*>(eight));
            }
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                // Words 2·quarter and its neighbour of a unit of eight: a half of a vector.
                const auto pair = [&](unsigned col) { return packed[2 * place_of(col, 2 * unit + quarter / 2) + quarter % 2]; };
                const uint2 first = pair(place + 16 * half), second = pair(place + 16 * half + 8);
#pragma unroll
                for (unsigned step = 0; step < 2; step++) {
                    unsigned upper[2], lower[2];
                    unpack(step == 0 ? first.x : first.y, upper);
                    unpack(step == 0 ? second.x : second.y, lower);
                    const unsigned weights[4] = {upper[0], lower[0], upper[1], lower[1]};
#pragma unroll
                    for (unsigned t = 0; t < TILES; t++) {
                        const uint4 x = right[t];
                        multiply_add(of_group[half][t], weights, step == 0 ? x.x : x.z, step == 0 ? x.y : x.w);
                    }
                }
            }
        }
        // A group is a chunk or longer. One that is the whole row is scaled once.
        if (GROUPS > 1 || chunk + WARPS >= CHUNKS) {
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
#pragma unroll
                for (unsigned t = 0; t < TILES; t++) {
#pragma unroll
                    for (unsigned i = 0; i < 4; i++) {
                        sums[half][t][i] = fmaf(of_group[half][t][i], factor[2 * half + i / 2], sums[half][t][i]);
                        of_group[half][t][i] = 0.0f;
                    }
                }
            }
        }
    }

    // Stages are free once all warps have read theirs. Sums are of columns place and place + 8 of a half, and of rows 2·quarter and
    // its neighbour.
    wait_for_copies<0>();
    __syncthreads();
    float* const parts = reinterpret_cast<float*>(shared);
    constexpr unsigned ROW = BLOCK_N + 1, PART = BLOCK_M * ROW;
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
#pragma unroll
        for (unsigned t = 0; t < TILES; t++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                const unsigned row = 8 * t + 2 * quarter + i % 2, col = 16 * half + 8 * (i / 2) + place;
                parts[warp * PART + row * ROW + col] = sums[half][t][i];
            }
        }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < BLOCK_M * BLOCK_N; i += 32 * WARPS) {
        const unsigned row = i / BLOCK_N, col = i % BLOCK_N;
        float sum = 0.0f;
#pragma unroll
        for (unsigned w = 0; w < WARPS; w++) sum += parts[w * PART + row * ROW + col];
        if (first_row + row < M && first_col + col < N) c[(u64)(first_row + row) * N + first_col + col] = to_elem(sum);
    }
}

#endif
