// Gated delta rule with the state in registers, token by token. See core/workloads/src/ops/gated_delta/recurrent.rs.
//
// gated_delta_recurrent  a block per head and COLUMNS columns; LANES neighbouring lanes have ROWS rows of a column each
//
// Shared memory has TOKENS tokens at a time. The next ones are read into registers meanwhile.

#include "lib/launch.cuh"
#include "lib/reduce.cuh"

constexpr unsigned COLUMNS = THREADS / LANES, QUADS_EACH = ROWS / 4, QUADS = LANES * QUADS_EACH;
// Vectors of keys and values of a thread in a read.
constexpr unsigned KEYS_EACH = (TOKENS * QUADS + THREADS - 1) / THREADS, VALUES_EACH = (TOKENS * COLUMNS + THREADS - 1) / THREADS;
static_assert(LANES <= 32 && THREADS % 32 == 0 && TOKENS <= THREADS, "a column lies in a warp");

// Four neighbours of a row of a key or query, from element `place` on; zeros outside.
__device__ __forceinline__ float4 quad_at(const elem* __restrict__ row, unsigned place, bool exists) {
    float four[4] = {};
    if constexpr (WIDTH == 4) {
        if (exists && place < DK) {
            const elem4 all = *reinterpret_cast<const elem4*>(row + place);
#pragma unroll
            for (unsigned i = 0; i < 4; i++) four[i] = load(all.at[i]);
        }
    } else {
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            if (exists && place + i < DK) four[i] = load(row[place + i]);
        }
    }
    return make_float4(four[0], four[1], four[2], four[3]);
}

// Sum of the products of two columns, by four sums that do not wait for each other.
__device__ __forceinline__ float dot(const float4 (&a)[QUADS_EACH], const float4 (&b)[QUADS_EACH]) {
    float4 sums = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (unsigned e = 0; e < QUADS_EACH; e++) {
        sums.x = fmaf(a[e].x, b[e].x, sums.x);
        sums.y = fmaf(a[e].y, b[e].y, sums.y);
        sums.z = fmaf(a[e].z, b[e].z, sums.z);
        sums.w = fmaf(a[e].w, b[e].w, sums.w);
    }
    return (sums.x + sums.y) + (sums.z + sums.w);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gated_delta_recurrent(const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v, const float* __restrict__ g,
                          const elem* __restrict__ beta, elem* __restrict__ out, float* __restrict__ state) {
    __shared__ float4 keys[TOKENS * QUADS], queries[TOKENS * QUADS];
    __shared__ float values[TOKENS * COLUMNS];
    // Decays and strengths.
    __shared__ float2 numbers[TOKENS];
    const u64 index = flat_workgroup(), of_head = index / PARTS, sequence = of_head / HEADS;
    if (of_head >= (u64)SEQUENCES * HEADS) return;
    const unsigned head = of_head % HEADS, first_column = index % PARTS * COLUMNS;
    const unsigned lane = threadIdx.x % LANES, place = threadIdx.x / LANES, column = first_column + place;

    float4 next_keys[KEYS_EACH], next_queries[KEYS_EACH];
    float next_values[VALUES_EACH];
    float2 next_numbers = make_float2(0.0f, 0.0f);
    const auto fetch = [&](unsigned first) {
#pragma unroll
        for (unsigned e = 0; e < KEYS_EACH; e++) {
            const unsigned at = threadIdx.x + e * THREADS, token = first + at / QUADS, quad = at % QUADS * 4;
            const bool exists = at < TOKENS * QUADS && token < S;
            const u64 row = ((sequence * S + token) * HEADS + head) * DK;
            next_keys[e] = quad_at(k + row, quad, exists);
            next_queries[e] = quad_at(q + row, quad, exists);
        }
#pragma unroll
        for (unsigned e = 0; e < VALUES_EACH; e++) {
            const unsigned at = threadIdx.x + e * THREADS, token = first + at / COLUMNS, of_token = first_column + at % COLUMNS;
            const bool exists = at < TOKENS * COLUMNS && token < S && of_token < DV;
            next_values[e] = exists ? load(v[((sequence * S + token) * HEADS + head) * DV + of_token]) : 0.0f;
        }
        if (threadIdx.x < TOKENS && first + threadIdx.x < S) {
            const u64 at = (sequence * S + first + threadIdx.x) * HEADS + head;
            next_numbers = make_float2(expf(g[at]), load(beta[at]));
        }
    };

    fetch(0);
    float4 rows[QUADS_EACH] = {};
#pragma unroll 1
    for (unsigned first = 0; first < S; first += TOKENS) {
        // Ends the reads of the tokens before.
        __syncthreads();
#pragma unroll
        for (unsigned e = 0; e < KEYS_EACH; e++) {
            const unsigned at = threadIdx.x + e * THREADS;
            if (at < TOKENS * QUADS) {
                keys[at] = next_keys[e];
                queries[at] = next_queries[e];
            }
        }
#pragma unroll
        for (unsigned e = 0; e < VALUES_EACH; e++) {
            const unsigned at = threadIdx.x + e * THREADS;
            if (at < TOKENS * COLUMNS) values[at] = next_values[e];
        }
        if (threadIdx.x < TOKENS) numbers[threadIdx.x] = next_numbers;
        __syncthreads();
        if (first + TOKENS < S) fetch(first + TOKENS);
        const unsigned count = min(TOKENS, S - first);
        for (unsigned i = 0; i < count; i++) {
            float4 key[QUADS_EACH], query[QUADS_EACH];
#pragma unroll
            for (unsigned e = 0; e < QUADS_EACH; e++) {
                key[e] = keys[i * QUADS + e * LANES + lane];
                query[e] = queries[i * QUADS + e * LANES + lane];
            }
            const float decay = numbers[i].x, known = lanes_sum(dot(key, rows), LANES);
            const float delta = numbers[i].y * (values[i * COLUMNS + place] - decay * known);
#pragma unroll
            for (unsigned e = 0; e < QUADS_EACH; e++) {
                rows[e].x = fmaf(key[e].x, delta, decay * rows[e].x);
                rows[e].y = fmaf(key[e].y, delta, decay * rows[e].y);
                rows[e].z = fmaf(key[e].z, delta, decay * rows[e].z);
                rows[e].w = fmaf(key[e].w, delta, decay * rows[e].w);
            }
            const float result = lanes_sum(dot(query, rows), LANES);
            if (lane == 0 && column < DV) {
                out[((sequence * S + first + i) * HEADS + head) * DV + column] = to_elem(SCALE * result);
            }
        }
    }
#pragma unroll
    for (unsigned e = 0; e < QUADS_EACH; e++) {
        const float of_rows[4] = {rows[e].x, rows[e].y, rows[e].z, rows[e].w};
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const unsigned row = (e * LANES + lane) * 4 + i;
            if (row < DK && column < DV) state[(of_head * DK + row) * DV + column] = of_rows[i];
        }
    }
}
