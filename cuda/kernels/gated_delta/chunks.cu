// Results and states of the gated delta rule, chunk by chunk. See core/workloads/src/ops/gated_delta/chunked.rs.
//
// gated_delta_chunks  a block per head of a sequence and COLUMNS columns, whose state stays in shared memory
//
// A thread has four tokens, or four rows of the state, and four columns. Products of a weight of zero and NaN are NaN: later tokens
// are left out, not weighted by zero.

#include "gated_delta/chunk.cuh"

// Vectors of a chunk's tokens, and of columns.
constexpr unsigned QUADS = CHUNK / 4, ACROSS = COLUMNS / 4, STRIDE = QUADS + 1, VECTORS = DEPTH * QUADS;
// Rows of the state in whole steps of the depth.
constexpr unsigned PADDED = (DK + DEPTH - 1) / DEPTH * DEPTH;
static_assert(THREADS == QUADS * ACROSS && THREADS >= 32, "four tokens and four columns of a thread");

// Sums of a thread: four rows of four columns.
struct Sums {
    float4 of[4];

    // Adds the products of the rows' factors and of the columns'. With EARLIER, those of token `token` are left out for rows of
    // earlier tokens, from `first` on.
    template <bool EARLIER>
    __device__ __forceinline__ void add(const float4& rows, const float4& columns, unsigned token, unsigned first) {
        const float factors[4] = {rows.x, rows.y, rows.z, rows.w};
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            if (EARLIER && token > first + i) continue;
            of[i].x = fmaf(factors[i], columns.x, of[i].x);
            of[i].y = fmaf(factors[i], columns.y, of[i].y);
            of[i].z = fmaf(factors[i], columns.z, of[i].z);
            of[i].w = fmaf(factors[i], columns.w, of[i].w);
        }
    }
};

__device__ __forceinline__ float4 times(float factor, const float4& x) {
    return make_float4(factor * x.x, factor * x.y, factor * x.z, factor * x.w);
}

// a + factor * b
__device__ __forceinline__ float4 plus(const float4& a, float factor, const float4& b) {
    return make_float4(fmaf(factor, b.x, a.x), fmaf(factor, b.y, a.y), fmaf(factor, b.z, a.z), fmaf(factor, b.w, a.w));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gated_delta_chunks(const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v, const float* __restrict__ g,
                       const float* __restrict__ inverse, const float* __restrict__ scores, elem* __restrict__ out,
                       float* __restrict__ state) {
    __shared__ float exponents[CHUNK];
    __shared__ float4 left[DEPTH * STRIDE], states[PADDED * ACROSS], deltas[CHUNK * ACROSS];
    const u64 index = flat_workgroup(), of_head = index / PARTS, sequence = of_head / HEADS;
    if (of_head >= (u64)SEQUENCES * HEADS) return;
    const unsigned head = of_head % HEADS, first_column = index % PARTS * COLUMNS;
    const unsigned own = threadIdx.x / ACROSS, across = threadIdx.x % ACROSS, column = first_column + across * 4;
    for (unsigned e = threadIdx.x; e < PADDED * ACROSS; e += THREADS) states[e] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);

    // Adds the products of keys or queries of the chunk's tokens with the state.
    const auto add_states = [&](Sums& sums, const elem* __restrict__ of, unsigned first) {
#pragma unroll 1
        for (unsigned depth = 0; depth < PADDED; depth += DEPTH) {
#pragma unroll
            for (unsigned e = threadIdx.x; e < VECTORS; e += THREADS) {
                left[e % DEPTH * STRIDE + e / DEPTH] = four_tokens(of, sequence, first + e / DEPTH * 4, head, depth + e % DEPTH);
            }
            __syncthreads();
#pragma unroll
            for (unsigned i = 0; i < DEPTH; i++) {
                sums.add<false>(left[i * STRIDE + own], states[(depth + i) * ACROSS + across], 0, 0);
            }
            __syncthreads();
        }
    };
    // Adds the products of a chunk's factors with the deltas of tokens that are not later.
    const auto add_earlier = [&](Sums& sums, const float* __restrict__ of, u64 chunk) {
        const float4* const factors = reinterpret_cast<const float4*>(of) + chunk * CHUNK * QUADS;
#pragma unroll 1
        for (unsigned depth = 0; depth < CHUNK; depth += DEPTH) {
#pragma unroll
            for (unsigned e = threadIdx.x; e < VECTORS; e += THREADS) {
                left[e / QUADS * STRIDE + e % QUADS] = factors[depth * QUADS + e];
            }
            __syncthreads();
#pragma unroll
            for (unsigned i = 0; i < DEPTH; i++) {
                sums.add<true>(left[i * STRIDE + own], deltas[(depth + i) * ACROSS + across], depth + i, own * 4);
            }
            __syncthreads();
        }
    };

#pragma unroll 1
    for (unsigned chunk = 0; chunk < CHUNKS; chunk++) {
        const unsigned first = chunk * CHUNK;
        const u64 of_chunk = (sequence * CHUNKS + chunk) * HEADS + head;
        // Ends the reads of the sums before.
        __syncthreads();
        if (threadIdx.x < 32) fill_exponents(exponents, two_of_g(g, sequence, head, first, threadIdx.x), threadIdx.x);
        __syncthreads();
        float decays[4];
#pragma unroll
        for (unsigned i = 0; i < 4; i++) decays[i] = expf(exponents[own * 4 + i]);

        // Values, less those that the state has for their keys.
        Sums sums = {};
        add_states(sums, k, first);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const unsigned token = first + own * 4 + i;
            const float4 value = four_of(v + ((sequence * S + token) * HEADS + head) * DV, column, token < S ? DV : 0);
            deltas[(own * 4 + i) * ACROSS + across] = plus(value, -decays[i], sums.of[i]);
        }
        // Deltas, by the inverse. A barrier follows the stores, and another the reads.
        sums = {};
        add_earlier(sums, inverse, of_chunk);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) deltas[(own * 4 + i) * ACROSS + across] = sums.of[i];

        // Results from the state before the chunk, and from its tokens.
        sums = {};
        add_states(sums, q, first);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) sums.of[i] = times(SCALE * decays[i], sums.of[i]);
        add_earlier(sums, scores, of_chunk);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const unsigned token = first + own * 4 + i;
            if (token >= S) continue;
            elem* const to = out + ((sequence * S + token) * HEADS + head) * DV + column;
            const float results[4] = {sums.of[i].x, sums.of[i].y, sums.of[i].z, sums.of[i].w};
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                if (column + e < DV) to[e] = to_elem(results[e]);
            }
        }

        // The state after the chunk, 64 rows at a time.
        const float total = exponents[CHUNK - 1], decay = expf(total);
#pragma unroll 1
        for (unsigned base = 0; base < DK; base += CHUNK) {
            sums = {};
#pragma unroll 1
            for (unsigned depth = 0; depth < CHUNK; depth += DEPTH) {
#pragma unroll
                for (unsigned e = threadIdx.x; e < VECTORS; e += THREADS) {
                    const unsigned j = depth + e / QUADS, token = first + j;
                    const float4 key = four_of(k + ((sequence * S + token) * HEADS + head) * DK, base + e % QUADS * 4, token < S ? DK : 0);
                    left[e / QUADS * STRIDE + e % QUADS] = times(expf(total - exponents[j]), key);
                }
                __syncthreads();
#pragma unroll
                for (unsigned i = 0; i < DEPTH; i++) {
                    sums.add<false>(left[i * STRIDE + own], deltas[(depth + i) * ACROSS + across], 0, 0);
                }
                __syncthreads();
            }
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                const unsigned row = base + own * 4 + i;
                if (row < DK) states[row * ACROSS + across] = plus(sums.of[i], decay, states[row * ACROSS + across]);
            }
        }
    }
    __syncthreads();
    const float* const elements = reinterpret_cast<const float*>(states);
    for (unsigned e = threadIdx.x; e < DK * COLUMNS; e += THREADS) {
        const unsigned of_state = first_column + e % COLUMNS;
        if (of_state < DV) state[(of_head * DK + e / COLUMNS) * DV + of_state] = elements[e];
    }
}
