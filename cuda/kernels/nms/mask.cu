// Bits of the later boxes that overlap a box, for one pair of tiles. The definition is in core/workloads/src/ops/nms.rs.

#include "nms/overlap.cuh"
#include "nms/rank.cuh"

// Bits of a word for boxes after box `i`, both counted within a tile.
__device__ __forceinline__ unsigned after(unsigned i, unsigned word) {
    const unsigned next = i + 1;
    if (next >= 32 * word + 32) return 0;
    return 0xFFFFFFFFu << (max(next, 32 * word) - 32 * word);
}

extern "C" __global__ void __launch_bounds__(THREADS) nms_mask(const float* __restrict__ boxes, unsigned* __restrict__ masks
#if CLASSED
                                                               ,
                                                               const unsigned* __restrict__ classes
#endif
#if SCORED
                                                               ,
                                                               const unsigned* __restrict__ order
#endif
) {
    const float4* __restrict__ const corners = reinterpret_cast<const float4*>(boxes);
    __shared__ float4 others[TILE];
    __shared__ float areas[TILE];
#if CLASSED
    __shared__ unsigned other_classes[TILE];
#endif
    // Rows of pairs from the beginning and from the end have TILES + 1 pairs together.
    const unsigned index = (unsigned)flat_workgroup(), first_row = index / (TILES + 1), offset = index % (TILES + 1);
    // Groups past the last pair.
    if (2 * first_row + 1 > TILES) return;
    const bool from_end = offset >= TILES - first_row;
    const unsigned row = from_end ? TILES - 1 - first_row : first_row;
    // The second half of a row that is paired with itself.
    if (from_end && row == first_row) return;
    const unsigned column = from_end ? TILES - 1 - (offset + first_row - TILES) : first_row + offset;
    const unsigned j = column * TILE + threadIdx.x;
    const float4 other = j < N ? corners[BOX_OF(j)] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    others[threadIdx.x] = other;
    areas[threadIdx.x] = area_of(other);
#if CLASSED
    other_classes[threadIdx.x] = classes[BOX_OF(min(j, N - 1))];
#endif
    __syncthreads();
    const unsigned i = row * TILE + threadIdx.x;
    if (i >= N) return;
    const float4 own = corners[BOX_OF(i)];
    const float area = area_of(own);
#if CLASSED
    const unsigned own_class = classes[BOX_OF(i)];
#endif
    unsigned bits[4];
#pragma unroll
    for (unsigned word = 0; word < 4; word++) {
        bits[word] = 0;
#pragma unroll 8
        for (unsigned k = 0; k < 32; k++) {
            bool excludes = overlaps(own, area, others[32 * word + k], areas[32 * word + k]);
#if CLASSED
            excludes = excludes && other_classes[32 * word + k] == own_class;
#endif
            bits[word] |= excludes ? 1u << k : 0u;
        }
        if (row == column) bits[word] &= after(threadIdx.x, word);
    }
    reinterpret_cast<uint4*>(masks)[(u64)i * TILES + column] = make_uint4(bits[0], bits[1], bits[2], bits[3]);
}
