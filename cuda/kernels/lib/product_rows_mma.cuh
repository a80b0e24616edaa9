// GEMM of few rows of A on tensor cores, bound by the memory of B. Elements have 16 bits, and sums are f32. Compute capability 8.0.
//
// The transpose of C is computed: columns of B are the left factor of 16 x 16, and TILES tiles of eight rows of A the right one.
// Lanes read their elements of both factors from device memory, those of B once and one step ahead. The order of the depth within
// a step is that of these reads, in both factors. SPLIT warps share the depth of a tile, and a block has 8 / SPLIT tiles. Columns
// and rows outside repeat the last ones; their results are not stored. Factors beyond the depth are zeros.

#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "lib/product.cuh"
#include "lib/read_once.cuh"

constexpr unsigned TILE_ROWS = 8 * TILES;

// Lane `g * 4 + t` has row g of A's tiles, and columns of B by g. Both have the part t of the depth of a step.

#if B_TRANSPOSED

// Columns g and g + 8 of 16. A step has two parts of 32, of which a lane has eight neighbours.
struct Factors {
    static constexpr unsigned COLUMNS = 16, STEP = 64, SETS = 1;
    const elem* columns[2];
    uint4 weights[2][2];

    __device__ __forceinline__ Factors(const elem* b, unsigned first_col, unsigned g) {
#pragma unroll
        for (unsigned j = 0; j < 2; j++) columns[j] = b + (u64)min(first_col + g + 8 * j, N - 1) * K;
    }

    __device__ __forceinline__ void read(unsigned first, unsigned t) {
#pragma unroll
        for (unsigned part = 0; part < 2; part++) {
            const unsigned k = first + part * 32 + t * 8;
#pragma unroll
            for (unsigned j = 0; j < 2; j++) {
                weights[j][part] = k < K ? read_words(columns[j] + k) : make_uint4(0, 0, 0, 0);
            }
        }
    }

    // Adds the products of a step with rows of A. `row(tile)` is the lane's row.
    template <typename Rows>
    __device__ __forceinline__ void multiply(float (&sums)[SETS][TILES][4], unsigned first, unsigned t, const Rows& row) const {
#pragma unroll
        for (unsigned part = 0; part < 2; part++) {
            const unsigned k = first + part * 32 + t * 8;
            const uint4 x = weights[0][part], y = weights[1][part];
            const unsigned low[4] = {x.x, y.x, x.y, y.y}, high[4] = {x.z, y.z, x.w, y.w};
#pragma unroll
            for (unsigned tile = 0; tile < TILES; tile++) {
                const uint4 left = k < K ? *reinterpret_cast<const uint4*>(row(tile) + k) : make_uint4(0, 0, 0, 0);
                multiply_add(sums[0][tile], low, left.x, left.y);
                multiply_add(sums[0][tile], high, left.z, left.w);
            }
        }
    }

    // Column of the tile that row `i` of a set's left factor has.
    __device__ __forceinline__ static unsigned column_of(unsigned, unsigned i) { return i; }
};

#else

// Columns 4 g to 4 g + 3 of 32, in two sets of 16. A step has two parts of 16, of which a lane has four neighbours.
struct Factors {
    static constexpr unsigned COLUMNS = 32, STEP = 32, SETS = 2;
    const elem* column;
    uint2 weights[2][4];

    __device__ __forceinline__ Factors(const elem* b, unsigned first_col, unsigned g)
        : column(b + min(first_col + 4 * g, N - 4)) {}

    __device__ __forceinline__ void read(unsigned first, unsigned t) {
#pragma unroll
        for (unsigned part = 0; part < 2; part++) {
            const unsigned k = first + part * 16 + t * 4;
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                // K is a multiple of four.
                weights[part][i] = k < K ? read_pair(column + (u64)(k + i) * N) : make_uint2(0, 0);
            }
        }
    }

    __device__ __forceinline__ static uint2 read_pair(const elem* from) {
        uint2 x;
        asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "l"(from));
        return x;
    }

    // Adds the products of a step with rows of A. `row(tile)` is the lane's row.
    template <typename Rows>
    __device__ __forceinline__ void multiply(float (&sums)[SETS][TILES][4], unsigned first, unsigned t, const Rows& row) const {
#pragma unroll
        for (unsigned part = 0; part < 2; part++) {
            const unsigned k = first + part * 16 + t * 4;
            uint2 left[TILES];
#pragma unroll
            for (unsigned tile = 0; tile < TILES; tile++) {
                left[tile] = k < K ? *reinterpret_cast<const uint2*>(row(tile) + k) : make_uint2(0, 0);
            }
            const uint2(&w)[4] = weights[part];
            const unsigned words[2][4] = {{w[0].x, w[1].x, w[2].x, w[3].x}, {w[0].y, w[1].y, w[2].y, w[3].y}};
#pragma unroll
            for (unsigned set = 0; set < 2; set++) {
                const unsigned(&word)[4] = words[set];
                // Neighbours along the depth, of the lower and of the upper column of the words.
                const unsigned factor[4] = {
                    __byte_perm(word[0], word[1], 0x5410), __byte_perm(word[0], word[1], 0x7632),
                    __byte_perm(word[2], word[3], 0x5410), __byte_perm(word[2], word[3], 0x7632)};
#pragma unroll
                for (unsigned tile = 0; tile < TILES; tile++) {
                    multiply_add(sums[set][tile], factor, left[tile].x, left[tile].y);
                }
            }
        }
    }

    __device__ __forceinline__ static unsigned column_of(unsigned set, unsigned i) { return i % 8 * 4 + set * 2 + i / 8; }
};

#endif

constexpr unsigned COLUMNS = Factors::COLUMNS, TEAMS = 8 / SPLIT, BLOCK_N = TEAMS * COLUMNS, RESULTS = TILE_ROWS * COLUMNS;

template <typename Epilogue>
__device__ __forceinline__ void product_rows_mma(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                                                 const Epilogue& epilogue) {
    constexpr unsigned across = (N + BLOCK_N - 1) / BLOCK_N, STEP = Factors::STEP;
    __shared__ float parts[8][RESULTS];
    const u64 index = flat_workgroup(), batch = index / across;
    if (batch >= BATCH) return;
    a += batch * a_elements;
    b += batch * b_elements;
    const unsigned block_col = (unsigned)(index % across) * BLOCK_N;
    const unsigned warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const auto row = [&](unsigned tile) { return a + (u64)min(tile * 8 + g, M - 1) * K; };

    float sums[Factors::SETS][TILES][4] = {};
    Factors now(b, block_col + warp / SPLIT * COLUMNS, g);
    unsigned first = warp % SPLIT * STEP;
    now.read(first, t);
    // All lanes of a warp have the same steps.
    while (first < K) {
        Factors next = now;
        next.read(first + SPLIT * STEP, t);
        now.multiply(sums, first, t, row);
        now = next;
        first += SPLIT * STEP;
    }
#pragma unroll
    for (unsigned set = 0; set < Factors::SETS; set++) {
#pragma unroll
        for (unsigned tile = 0; tile < TILES; tile++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                const unsigned left = tile * 8 + 2 * t + i % 2, column = Factors::column_of(set, g + i / 2 * 8);
                parts[warp][left * COLUMNS + column] = sums[set][tile][i];
            }
        }
    }
    __syncthreads();
    for (unsigned at_part = threadIdx.x; at_part < TEAMS * RESULTS; at_part += 256) {
        const unsigned team = at_part / RESULTS, result = at_part % RESULTS;
        const unsigned left = result / COLUMNS, col = block_col + team * COLUMNS + result % COLUMNS;
        float sum = 0.0f;
#pragma unroll
        for (unsigned i = 0; i < SPLIT; i++) sum += parts[team * SPLIT + i][result];
        if (left >= M || col >= N) continue;
        const u64 at = batch * c_elements + (u64)left * N + col;
        c[at] = to_elem(epilogue(at, col, sum));
    }
}
