// Backward kernels of attention whose blocks own 64 keys: dK and dV, and dQ by atomic additions.

constexpr bool OF_KEYS = true;

#include "attention/flash_backward.cuh"
#include "lib/atomics.cuh"

// dq_sum += transposed factors * own rows. Begins with a barrier, after which the stage is free.
__device__ __forceinline__ void add_to_queries(float* __restrict__ dq_sum, const float (*factors)[OTHERS],
                                               float4* staged, const elem* __restrict__ own, unsigned own0,
                                               unsigned own_end, unsigned other0) {
    const unsigned tx = threadIdx.x, ty = threadIdx.y, thread = ty * 16 + tx;
    float4 sums[2][COLUMNS] = {};
    for (unsigned part = 0; part < OWN; part += VALUES) {
        __syncthreads();
        for (unsigned i = thread; i < VALUES * COLUMNS * 16; i += 256) {
            const unsigned row = own0 + part + i / (COLUMNS * 16);
            staged[i] = load_columns(own + (u64)row * D, i % (COLUMNS * 16) * 4, row < own_end);
        }
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < VALUES; i++) {
            const float2 factor = *reinterpret_cast<const float2*>(&factors[part + i][2 * ty]);
#pragma unroll
            for (unsigned j = 0; j < COLUMNS; j++) {
                const float4 value = staged[i * (COLUMNS * 16) + tx + 16 * j];
                add_scaled(sums[0][j], factor.x, value);
                add_scaled(sums[1][j], factor.y, value);
            }
        }
    }
#pragma unroll
    for (unsigned r = 0; r < 2; r++) {
        const unsigned row = other0 + 2 * ty + r;
        if (row >= other_length) continue;
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) {
            const unsigned column = (tx + 16 * j) * 4;
            float* const to = dq_sum + (u64)row * D + column;
            add_pair<D>(to, column, sums[r][j].x, sums[r][j].y);
            add_pair<D>(to + 2, column + 2, sums[r][j].z, sums[r][j].w);
        }
    }
}

template <bool atomic>
__device__ __forceinline__ void own_keys(const elem* __restrict__ own, const elem* __restrict__ own_value,
                                         const elem* __restrict__ other, const elem* __restrict__ other_value,
                                         const float* __restrict__ lse, const float* __restrict__ delta,
                                         elem* __restrict__ gradient, elem* __restrict__ value_gradient,
                                         float* __restrict__ dq_sum, const Masks& masks) {
    __shared__ float4 staged[STAGED];
    __shared__ alignas(16) float factors[OWN][OTHERS];
    constexpr unsigned tiles = (T + OWN - 1) / OWN;
    const u64 index = flat_workgroup();
    if (index >= (u64)HEADS / GROUP * tiles) return;
    const u64 of_keys = index / tiles * T * D;
    const unsigned key0 = (unsigned)(index % tiles) * OWN;

    float4 keys[4][COLUMNS] = {}, values[4][COLUMNS] = {};
    const u64 first_head = index / tiles * GROUP;
    // No query sees keys beyond the length.
    const unsigned end = masks.keys_of(first_head);
    const unsigned end_query = masks.window_end(key0 + OWN - 1);
    const u64 end_head = first_head + (key0 < end ? GROUP : 0);
    for (u64 head = first_head; head < end_head; head++) {
        const u64 of_queries = head * S * D;
        const Heads heads = {own + of_keys,            own_value + of_keys, other + of_queries,
                             other_value + of_queries, lse + head * S,      delta + head * S,
                             head,                     masks};
        for (unsigned query0 = masks.first_query(key0) / OTHERS * OTHERS; query0 < end_query; query0 += OTHERS) {
            const Found found = of_tile(staged, heads, key0, query0);
            share(factors, found.probability);
            add_rows<OTHERS>(values, factors, staged, heads.other_value, query0, S);
            __syncthreads();
            share(factors, found.dscore);
            add_rows<OTHERS>(keys, factors, staged, heads.other, query0, S);
            if constexpr (atomic) add_to_queries(dq_sum + of_queries, factors, staged, heads.own, key0, end, query0);
        }
    }
    store_sums(gradient + of_keys, key0, keys);
    store_sums(value_gradient + of_keys, key0, values);
}
