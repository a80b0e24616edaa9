// GEMM tiles of `tile_side` by `tile_side`, with `tile_step` of the DEPTH terms at a time: each of 256 threads has four rows of
// four columns. Where terms are neighbours in memory, neighbouring threads load neighbouring terms; otherwise rows or columns.

constexpr unsigned tile_side = 64;
constexpr unsigned tile_step = 16;
// Rows of a tile in shared memory stay aligned to vectors, and neighbouring terms of a column fall on different banks.
constexpr unsigned tile_pitch = tile_side + 4;

// First row and column of this thread's four by four elements.
__device__ __forceinline__ unsigned own_row() { return threadIdx.x / 16 * 4; }
__device__ __forceinline__ unsigned own_column() { return threadIdx.x % 16 * 4; }

// Term, and row or column, of this thread's i-th load.
template <bool ALONG>
__device__ __forceinline__ uint2 tile_place(unsigned i) {
    const unsigned at = threadIdx.x + i * 256;
    return ALONG ? make_uint2(at % tile_step, at / tile_step) : make_uint2(at / tile_side, at % tile_side);
}

// All threads of the block must call. `left(row, term)` and `right(term, column)` are the factors, zero outside.
template <typename Left, typename Right>
__device__ __forceinline__ void tile_product(unsigned first_row, unsigned first_column, Left left, Right right,
                                             float (&sums)[4][4]) {
    __shared__ float4 lefts[tile_step][tile_pitch / 4], rights[tile_step][tile_pitch / 4];
    constexpr unsigned each = tile_step * tile_side / 256;
#pragma unroll
    for (unsigned i = 0; i < 16; i++) sums[i / 4][i % 4] = 0.0f;
    for (unsigned first = 0; first < DEPTH; first += tile_step) {
        // All loads are in flight before the previous tiles are overwritten.
        float new_lefts[each], new_rights[each];
#pragma unroll
        for (unsigned i = 0; i < each; i++) {
            new_lefts[i] = left(first_row + tile_place<LEFT_ALONG>(i).y, first + tile_place<LEFT_ALONG>(i).x);
            new_rights[i] = right(first + tile_place<RIGHT_ALONG>(i).x, first_column + tile_place<RIGHT_ALONG>(i).y);
        }
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < each; i++) {
            const uint2 of_left = tile_place<LEFT_ALONG>(i), of_right = tile_place<RIGHT_ALONG>(i);
            reinterpret_cast<float*>(lefts[of_left.x])[of_left.y] = new_lefts[i];
            reinterpret_cast<float*>(rights[of_right.x])[of_right.y] = new_rights[i];
        }
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < tile_step; k++) {
            const float4 down = lefts[k][own_row() / 4], across = rights[k][own_column() / 4];
            const float a[4] = {down.x, down.y, down.z, down.w}, b[4] = {across.x, across.y, across.z, across.w};
#pragma unroll
            for (unsigned i = 0; i < 16; i++) sums[i / 4][i % 4] = fmaf(a[i / 4], b[i % 4], sums[i / 4][i % 4]);
        }
    }
}
