// Walsh-Hadamard transform of rows that stay in registers. The definition is in core/workloads/src/ops/hadamard.rs.
//
// A row has PIECES pieces in each of LANES threads; piece k of a thread is LANES * k + lane. Sums over bits of an element's number:
//
// 1. bits within a piece, and those of k: in registers
// 2. bits of the lane within a warp: at each, half of a thread's pieces change places with those of its neighbour. The lowest bit of k
//    and that of the lane are exchanged, by one shuffle for two elements, and the sum is within a thread.
// 3. bits of the warp: all elements change places once, in shared memory. Vectors of four floats are in planes: the first halves of all
//    pieces, and the second halves of pieces of eight. `plane` in hadamard.rs has the gaps between them.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

constexpr unsigned row_pieces = COLUMNS / WIDTH;
constexpr unsigned rows_at_once = THREADS / LANES;
constexpr unsigned warp_lanes = LANES < 32 ? LANES : 32;
constexpr unsigned warps = LANES / warp_lanes;
// Vectors of four floats in a piece, and neighbouring ones of a thread after the change of places.
constexpr unsigned halves = WIDTH / 4;
constexpr unsigned along = halves == 2 && 8 * warps <= PIECES * WIDTH ? 2 : 1;
// Pieces of the same place within a warp belong to `sides` threads after it, `rounds` of them to each.
constexpr unsigned sides = warps * along / halves == 0 ? 1 : warps * along / halves;
constexpr unsigned rounds = PIECES / sides;
constexpr unsigned pitch = LANES + 4;
// Blocks of a multiprocessor, of which as many elements are in registers: half of them, or all with 64 to a thread.
constexpr unsigned resident = (PIECES * WIDTH >= 64 ? 512 : 1024) / THREADS;

__device__ __forceinline__ void add_and_subtract(float& a, float& b) {
    const float sum = a + b, difference = a - b;
    a = sum;
    b = difference;
}

extern "C" __global__ void __launch_bounds__(THREADS, resident)
    hadamard_row(const elem* __restrict__ x, elem* __restrict__ out) {
    const u64 first_row = flat_workgroup() * rows_at_once;
    const u64 row = first_row + threadIdx.x / LANES;
    const unsigned lane = threadIdx.x % LANES;
    const u64 base = row * row_pieces;

    // Threads without a row take part in exchanges.
    piece kept[PIECES];
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        kept[k] = row < ROWS ? load_piece(x, base + lane + k * LANES) : piece_of(0.0f);
    }
    if constexpr (AHEAD != 0) {
        constexpr unsigned line = 128 / (WIDTH * sizeof(elem));
        if (row + AHEAD < ROWS) {
            const stored* next = reinterpret_cast<const stored*>(x) + base + (u64)AHEAD * row_pieces;
            for (unsigned at = lane * line; at < row_pieces; at += LANES * line) {
                asm volatile("prefetch.global.L2 [%0];" ::"l"(next + at));
            }
        }
    }
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
#pragma unroll
        for (unsigned apart = 1; apart < WIDTH; apart *= 2) {
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) {
                if (!(i & apart)) add_and_subtract(kept[k].at[i], kept[k].at[i | apart]);
            }
        }
    }
#pragma unroll
    for (unsigned apart = 1; apart < PIECES; apart *= 2) {
#pragma unroll
        for (unsigned k = 0; k < PIECES; k++) {
            if (k & apart) continue;
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) add_and_subtract(kept[k].at[i], kept[k | apart].at[i]);
        }
    }
#pragma unroll
    for (unsigned apart = 1; apart < warp_lanes; apart *= 2) {
        const bool upper = lane & apart;
        const float sign = upper ? -1.0f : 1.0f;
#pragma unroll
        for (unsigned k = 0; k < PIECES; k += 2) {
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) {
                const float a = kept[k].at[i], b = kept[k + 1].at[i];
                const float own = upper ? b : a;
                const float other = __shfl_xor_sync(0xFFFFFFFFu, upper ? a : b, apart);
                kept[k].at[i] = own + other;
                kept[k + 1].at[i] = sign * (own - other);
            }
        }
    }
    // Each exchange moved the bits on: the lowest bit of the lane now is that of k, and the lowest of k is the highest of the lane.
    const unsigned place = lane % 32;
    const auto k_of = [&](unsigned k) { return warp_lanes == 1 ? k : (k & ~1u) | (place & 1); };
    const auto lane_of = [&](unsigned k) {
        return warp_lanes == 1 ? lane : lane / 32 * 32 + ((place % warp_lanes) >> 1) + (k & 1) * (warp_lanes / 2);
    };

    if constexpr (warps == 1) {
        if (row >= ROWS) return;
#pragma unroll
        for (unsigned k = 0; k < PIECES; k++) {
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) kept[k].at[i] *= SCALE;
            store_piece(out, base + lane_of(k) + k_of(k) * LANES, kept[k]);
        }
    } else {
        extern __shared__ float4 places[];
        float4* own = places + threadIdx.x / LANES * (halves * PLANE);
#pragma unroll
        for (unsigned k = 0; k < PIECES; k++) {
#pragma unroll
            for (unsigned h = 0; h < halves; h++) {
                const float* four = kept[k].at + 4 * h;
                own[h * PLANE + k_of(k) * pitch + lane_of(k)] = make_float4(four[0], four[1], four[2], four[3]);
            }
        }
        __syncthreads();
        const unsigned half = halves > along ? lane % 2 : 0, rest = halves > along ? lane / 2 : lane;
        const unsigned within = rest % 32, side = rest / 32;
#pragma unroll
        for (unsigned r = 0; r < rounds; r++) {
            const unsigned k = side + r * sides;
            float sums[warps][4 * along];
#pragma unroll
            for (unsigned w = 0; w < warps; w++) {
#pragma unroll
                for (unsigned h = 0; h < along; h++) {
                    const float4 four = own[(half + h) * PLANE + k * pitch + w * 32 + within];
                    sums[w][4 * h] = four.x;
                    sums[w][4 * h + 1] = four.y;
                    sums[w][4 * h + 2] = four.z;
                    sums[w][4 * h + 3] = four.w;
                }
            }
#pragma unroll
            for (unsigned apart = 1; apart < warps; apart *= 2) {
#pragma unroll
                for (unsigned w = 0; w < warps; w++) {
                    if (w & apart) continue;
#pragma unroll
                    for (unsigned i = 0; i < 4 * along; i++) add_and_subtract(sums[w][i], sums[w | apart][i]);
                }
            }
            if (row >= ROWS) continue;
#pragma unroll
            for (unsigned w = 0; w < warps; w++) {
                const u64 at = base + k * LANES + w * 32 + within;
                if constexpr (along == halves) {
                    piece whole;
#pragma unroll
                    for (unsigned i = 0; i < WIDTH; i++) whole.at[i] = sums[w][i] * SCALE;
                    store_piece(out, at, whole);
                } else {
                    elem4 part;
#pragma unroll
                    for (unsigned i = 0; i < 4; i++) part.at[i] = to_elem(sums[w][i] * SCALE);
                    reinterpret_cast<elem4*>(out)[at * 2 + half] = part;
                }
            }
        }
    }
}
