// GEMM of few rows of A, bound by the memory of B. Sums are f32.
//
// A block of eight warps computes ROWS rows. Its threads read B once, in vectors of WIDTH elements, one step ahead. A comes from
// the cache. Each thread adds the products of its part of the depth. Columns and rows outside repeat the last ones; their results
// are not stored.
//
// B_TRANSPOSED: vectors run along the depth. SPLIT warps share the depth of COLUMNS columns, and a block has 8 / SPLIT such teams.
// Otherwise: vectors run along a row of B. ACROSS neighbouring lanes read neighbouring vectors. All other lanes and warps of the
// block share the depth, UNROLL rows of B at a time.

#include "lib/launch.cuh"
#include "lib/product.cuh"
#include "lib/read_once.cuh"
#include "lib/sum_each.cuh"

// Row `r` of `rows` of A that are left, or the last one.
__device__ __forceinline__ const elem* row_of(const elem* a, unsigned r, unsigned rows) {
    return a + (u64)(M % ROWS == 0 ? r : min(r, rows - 1)) * K;
}

#if B_TRANSPOSED

constexpr unsigned TEAMS = 8 / SPLIT, BLOCK_N = TEAMS * COLUMNS, SHARES = SPLIT, PART_COLUMNS = COLUMNS;
constexpr unsigned RESULTS = ROWS * PART_COLUMNS;
static_assert(RESULTS <= 32, "a warp has a sum for each of its lanes at most");

__device__ __forceinline__ void sum_rows(const elem* __restrict__ a, const elem* __restrict__ b, unsigned rows,
                                         unsigned block_col, float (&parts)[8][RESULTS]) {
    constexpr unsigned UNITS = K / WIDTH;
    using vec = Vector<WIDTH>;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, first_col = block_col + warp / SPLIT * COLUMNS;
    const elem* columns[COLUMNS];
#pragma unroll
    for (unsigned j = 0; j < COLUMNS; j++) columns[j] = b + (u64)min(first_col + j, N - 1) * K;
    float sums[RESULTS] = {};
    vec now[COLUMNS];
    unsigned unit = warp % SPLIT * 32 + lane;
#pragma unroll
    for (unsigned j = 0; j < COLUMNS; j++) now[j] = read_once<WIDTH>(columns[j], unit, unit < UNITS);
    while (unit < UNITS) {
        const unsigned following = unit + 32 * SPLIT;
        vec next[COLUMNS], left[ROWS];
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) next[j] = read_once<WIDTH>(columns[j], following, following < UNITS);
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++) {
            left[r] = reinterpret_cast<const vec*>(row_of(a, r, rows))[unit];
        }
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) {
            float weight[COLUMNS];
#pragma unroll
            for (unsigned j = 0; j < COLUMNS; j++) weight[j] = load(now[j].at[i]);
#pragma unroll
            for (unsigned r = 0; r < ROWS; r++) {
                const float x = load(left[r].at[i]);
#pragma unroll
                for (unsigned j = 0; j < COLUMNS; j++) {
                    sums[r * COLUMNS + j] = fmaf(x, weight[j], sums[r * COLUMNS + j]);
                }
            }
        }
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) now[j] = next[j];
        unit = following;
    }
    constexpr unsigned holders = 32 / RESULTS;
    const float sum = lanes_sum_of_each<RESULTS, 32>(sums);
    if (lane % holders == 0) parts[warp][lane / holders] = sum;
}

#else

constexpr unsigned TEAMS = 1, BLOCK_N = ACROSS * WIDTH, SHARES = 8, PART_COLUMNS = BLOCK_N;
constexpr unsigned RESULTS = ROWS * PART_COLUMNS;
static_assert(RESULTS <= 256, "a thread has a result at most");

// Rows of B from `first` on at a vector of columns, zeros outside.
__device__ __forceinline__ void read_steps(Vector<WIDTH> (&to)[UNROLL], const elem* column, unsigned first) {
#pragma unroll
    for (unsigned u = 0; u < UNROLL; u++) {
        to[u] = read_once<WIDTH>(column + (u64)(first + u) * N, 0, first < K && first + u < K);
    }
}

// UNROLL elements of a row of A from `first` on, zeros outside.
__device__ __forceinline__ Vector<UNROLL> read_left(const elem* row, unsigned first) {
    if constexpr (K % UNROLL == 0) {
        return *reinterpret_cast<const Vector<UNROLL>*>(row + first);
    } else {
        Vector<UNROLL> x;
#pragma unroll
        for (unsigned u = 0; u < UNROLL; u++) x.at[u] = first + u < K ? row[first + u] : elem{};
        return x;
    }
}

__device__ __forceinline__ void sum_rows(const elem* __restrict__ a, const elem* __restrict__ b, unsigned rows,
                                         unsigned block_col, float (&parts)[8][RESULTS]) {
    constexpr unsigned VECTORS = N / WIDTH, DEEP = 32 / ACROSS, STEP = 8 * DEEP * UNROLL;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, across = lane % ACROSS;
    const elem* const column = b + (u64)min(block_col / WIDTH + across, VECTORS - 1) * WIDTH;
    float sums[ROWS][WIDTH] = {};
    Vector<WIDTH> now[UNROLL];
    unsigned first = (warp * DEEP + lane / ACROSS) * UNROLL;
    read_steps(now, column, first);
    while (first < K) {
        Vector<WIDTH> next[UNROLL];
        Vector<UNROLL> left[ROWS];
        read_steps(next, column, first + STEP);
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++) left[r] = read_left(row_of(a, r, rows), first);
#pragma unroll
        for (unsigned u = 0; u < UNROLL; u++) {
            float weight[WIDTH];
#pragma unroll
            for (unsigned j = 0; j < WIDTH; j++) weight[j] = load(now[u].at[j]);
#pragma unroll
            for (unsigned r = 0; r < ROWS; r++) {
                const float x = load(left[r].at[u]);
#pragma unroll
                for (unsigned j = 0; j < WIDTH; j++) sums[r][j] = fmaf(x, weight[j], sums[r][j]);
            }
        }
#pragma unroll
        for (unsigned u = 0; u < UNROLL; u++) now[u] = next[u];
        first += STEP;
    }
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
#pragma unroll
        for (unsigned j = 0; j < WIDTH; j++) {
            float sum = sums[r][j];
#pragma unroll
            for (unsigned step = 16; step >= ACROSS; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
            if (lane < ACROSS) parts[warp][r * BLOCK_N + across * WIDTH + j] = sum;
        }
    }
}

#endif

template <typename Epilogue>
__device__ __forceinline__ void product_rows(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                                             const Epilogue& epilogue) {
    constexpr unsigned across = (N + BLOCK_N - 1) / BLOCK_N, down = (M + ROWS - 1) / ROWS;
    // Sums of a part of the depth, by warp, then by row and column of the tile.
    __shared__ float parts[8][RESULTS];
    const u64 index = flat_workgroup(), batch = index / ((u64)across * down), tile = index % ((u64)across * down);
    if (batch >= BATCH) return;
    // Tiles of the same columns follow each other, so that their part of B comes from the cache.
    const unsigned first_row = (unsigned)(tile % down) * ROWS, block_col = (unsigned)(tile / down) * BLOCK_N;
    sum_rows(a + batch * a_elements + (u64)first_row * K, b + batch * b_elements, M - first_row, block_col, parts);
    __syncthreads();
    if (threadIdx.x >= TEAMS * RESULTS) return;
    const unsigned team = threadIdx.x / RESULTS, result = threadIdx.x % RESULTS;
    const unsigned row = first_row + result / PART_COLUMNS, col = block_col + team * PART_COLUMNS + result % PART_COLUMNS;
    float sum = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < SHARES; i++) sum += parts[team * SHARES + i][result];
    if (row >= M || col >= N) return;
    const u64 at = batch * c_elements + (u64)row * N + col;
    c[at] = to_elem(epilogue(at, col, sum));
}
