// Stores of a warp's 16 rows of a tile by the copy engine, in pieces of 16 rows of 128 bytes. Compute capability 9.0 only.

#include "lib/mma.cuh"
#include "lib/tma.cuh"
#include "lib/wgmma.cuh"

// Columns of a piece. A warp has two pieces in shared memory, in these bytes.
constexpr unsigned PIECE_N = 128 / sizeof(elem), pieces_bytes = 2 * 16 * 128;

// A piece from its elements `first` and on of a thread. `pair(i)` has elements `i` and `i + 1`, neighbours in a row.
template <typename Pair>
__device__ __forceinline__ void write_piece(unsigned char* piece, unsigned first, const Pair& pair) {
    const unsigned lane = threadIdx.x % 32;
#if defined(ELEM_F32)
#pragma unroll
    for (unsigned i = 0; i < PIECE_N / 2; i += 2) {
        const unsigned row = lane / 4 + i / 2 % 2 * 8, place = i / 4 * 2 + lane % 4 / 2;
        *reinterpret_cast<float2*>(piece + row * 128 + (place ^ row % 8) * 16 + lane % 2 * 8) = pair(first + i);
    }
#else
    // Row whose address this lane gives, and which of two 16-byte places.
    const unsigned row = lane % 16, half = lane / 16;
#pragma unroll
    for (unsigned j = 0; j < 4; j++) {
        unsigned x[4];
#pragma unroll
        for (unsigned r = 0; r < 4; r++) {
            const float2 two = pair(first + j * 8 + r * 2);
            x[r] = pack(two.x, two.y);
        }
        store_matrices(piece + row * 128 + ((j * 2 + half) ^ row % 8) * 16, x);
    }
#endif
}

// Stores 16 rows of BLOCK_N columns. No other warp is involved. The last stores still read shared memory: `tma_wait_read<0>`.
template <typename Pair>
__device__ __forceinline__ void store_rows(const CUtensorMap& c, unsigned char* pieces, unsigned first_row,
                                           unsigned first_column, const Pair& pair) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned i = 0; i < BLOCK_N / PIECE_N; i++) {
        unsigned char* const piece = pieces + i % 2 * (pieces_bytes / 2);
        // The copy engine must have read the piece. The first one waits for all pieces of the tile before.
        if (lane == 0) {
            if (i == 0) {
                tma_wait_read<0>();
            } else {
                tma_wait_read<1>();
            }
        }
        __syncwarp();
        write_piece(piece, i * PIECE_N / 2, pair);
        tma_fence();
        __syncwarp();
        if (lane == 0) {
            tma_store(c, piece, first_column + i * PIECE_N, first_row);
            tma_commit();
        }
    }
}
