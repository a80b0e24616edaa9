// Inverse of the system of a chunk's tokens. Below its diagonal, row i has the token's weights of earlier ones. Above it, row j
// gets column j of the inverse. The diagonal is one, and not stored.
//
// Blocks of sixteen tokens are solved column by column, and joined in pairs. For the inverses P and Q of two neighbouring blocks,
// and the weights W of the later one for the earlier one, that of both has -Q · W · P between them.

// Solves column j within its block of sixteen: a token's part is its own, less those of the tokens between.
__device__ __forceinline__ void solve_column(float (&system)[CHUNK * CHUNK], unsigned j) {
    const unsigned end = (j / 16 + 1) * 16;
#pragma unroll 1
    for (unsigned i = j + 1; i < end; i++) {
        float sum = system[i * CHUNK + j];
        for (unsigned m = j + 1; m < i; m++) sum = fmaf(system[i * CHUNK + m], system[j * CHUNK + m], sum);
        system[j * CHUNK + i] = -sum;
    }
}

// Joins blocks of HALF tokens. All threads of the block call this, between barriers.
template <unsigned HALF>
__device__ __forceinline__ void join(float (&system)[CHUNK * CHUNK]) {
    constexpr unsigned each = CHUNK * HALF / 2 / THREADS;
    float sums[each];
#pragma unroll
    for (unsigned n = 0; n < each; n++) {
        const unsigned e = n * THREADS + threadIdx.x, middle = e / (HALF * HALF) * 2 * HALF + HALF;
        const unsigned i = middle + e / HALF % HALF, j = middle - HALF + e % HALF;
        float sum = system[i * CHUNK + j];
        for (unsigned m = j + 1; m < middle; m++) sum = fmaf(system[i * CHUNK + m], system[j * CHUNK + m], sum);
        sums[n] = sum;
    }
    __syncthreads();
    // W · P in place of W.
#pragma unroll
    for (unsigned n = 0; n < each; n++) {
        const unsigned e = n * THREADS + threadIdx.x, middle = e / (HALF * HALF) * 2 * HALF + HALF;
        system[(middle + e / HALF % HALF) * CHUNK + middle - HALF + e % HALF] = sums[n];
    }
    __syncthreads();
#pragma unroll
    for (unsigned n = 0; n < each; n++) {
        const unsigned e = n * THREADS + threadIdx.x, middle = e / (HALF * HALF) * 2 * HALF + HALF;
        const unsigned i = middle + e / HALF % HALF, j = middle - HALF + e % HALF;
        float sum = sums[n];
        for (unsigned m = middle; m < i; m++) sum = fmaf(system[m * CHUNK + i], system[m * CHUNK + j], sum);
        system[j * CHUNK + i] = -sum;
    }
    __syncthreads();
}

// Solves the system. All threads of the block call this, behind a barrier, and another one ends it.
__device__ __forceinline__ void solve(float (&system)[CHUNK * CHUNK]) {
    static_assert(CHUNK == 64 && THREADS % CHUNK == 0 && 16 * CHUNK / 2 % THREADS == 0, "whole parts of all blocks");
    if (threadIdx.x < CHUNK) solve_column(system, threadIdx.x);
    __syncthreads();
    join<16>(system);
    join<32>(system);
}

// Element of the inverse for an earlier token j and a later token i.
__device__ __forceinline__ float one_of_inverse(const float (&system)[CHUNK * CHUNK], unsigned j, unsigned i) {
    return i > j ? system[j * CHUNK + i] : i == j ? 1.0f : 0.0f;
}
