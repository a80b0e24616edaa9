// Fourier transforms of lines of a power of two, AT_ONCE of them in a block. The definition and the meaning of constants are in
// core/workloads/src/ops/fft/lines.rs.
//
// Stockham's order: element i of a thread is element t + i * SPACE of its line before each pass and after the last. A pass of radix R
// takes elements LEN / R apart; the first is of radix FIRST, the others of radix EACH. Between passes, elements change places in shared
// memory. A place in seventeen is unused, so that threads a power of two apart use different banks.

#include "lib/launch.cuh"
#include "fft/complex.cuh"

// Threads of a line.
constexpr unsigned SPACE = LEN / EACH;
#if INVERSE
constexpr float SIGN = 1.0f;
#else
constexpr float SIGN = -1.0f;
#endif

__device__ __forceinline__ unsigned padded(unsigned at) { return at + at / 16; }

// Root k of a power of two, with the sign of the transform. The table has the negative sign.
__device__ __forceinline__ float2 root_of(const float2* __restrict__ roots, unsigned order, unsigned k) {
    const float2 found = __ldg(roots + order + k);
    return make_float2(found.x, -SIGN * found.y);
}

// Multiplies by a sixteenth of the circle, `i` times, with the sign of the exponent.
__device__ __forceinline__ float2 rotated(float2 a, unsigned i) {
    constexpr float cosines[8] = {1.0f,  0.92387953251128674f,  0.70710678118654752f,  0.38268343236508977f,
                                  0.0f, -0.38268343236508977f, -0.70710678118654752f, -0.92387953251128674f};
    constexpr float sines[8] = {0.0f, 0.38268343236508977f, 0.70710678118654752f, 0.92387953251128674f,
                                1.0f, 0.92387953251128674f, 0.70710678118654752f, 0.38268343236508977f};
    if (i == 0) return a;
    if (i == 4) return make_float2(-SIGN * a.y, SIGN * a.x);
    return product(a, make_float2(cosines[i], SIGN * sines[i]));
}

// Place of result i of a transform by halves of n elements: its bits in reverse.
__device__ __forceinline__ constexpr unsigned reversed(unsigned i, unsigned n) {
    unsigned other = 0;
    for (unsigned bit = 1; bit < n; bit *= 2) other = other * 2 + (i & bit ? 1 : 0);
    return other;
}

// Transform of R elements, `step` apart in v, after DONE elements. The results are in order.
template <unsigned DONE, unsigned R>
__device__ __forceinline__ void pass(float2 (&v)[EACH], const float2* __restrict__ roots, unsigned t) {
    constexpr unsigned step = EACH / R;
#pragma unroll
    for (unsigned q = 0; q < step; q++) {
        float2 u[R];
#pragma unroll
        for (unsigned r = 0; r < R; r++) u[r] = v[q + r * step];
        if constexpr (DONE > 1) {
            const unsigned place = (t + q * SPACE) % DONE;
            // Root r is the product of those of its bits.
#pragma unroll
            for (unsigned bit = 1; bit < R; bit *= 2) {
                const float2 factor = root_of(roots, DONE * R / bit, place);
#pragma unroll
                for (unsigned r = 1; r < R; r++) {
                    if (r & bit) u[r] = product(u[r], factor);
                }
            }
        }
#pragma unroll
        for (unsigned half = R / 2; half > 0; half /= 2) {
#pragma unroll
            for (unsigned r = 0; r < R; r++) {
                if (r & half) continue;
                const float2 a = u[r], b = u[r + half];
                u[r] = sum(a, b);
                u[r + half] = rotated(difference(a, b), r % half * (8 / half));
            }
        }
#pragma unroll
        for (unsigned r = 0; r < R; r++) v[q + r * step] = u[reversed(r, R)];
    }
}

// Line of the block, and place in it, of a thread whose neighbours are along a line or on neighbouring lines.
struct Position {
    unsigned line, t;
};

__device__ __forceinline__ Position position(bool along) {
    if (along) return Position{threadIdx.x / SPACE, threadIdx.x % SPACE};
    return Position{threadIdx.x % AT_ONCE, threadIdx.x / AT_ONCE};
}

__device__ __forceinline__ u64 first_of(u64 line, unsigned outer, unsigned middle) {
    return line / INNER / MIDDLE * outer + line / INNER % MIDDLE * middle + line % INNER;
}

// Results of a pass of radix R to their places, and the elements of the next pass from theirs.
template <unsigned DONE, unsigned R>
__device__ __forceinline__ void change_places(float2 (&v)[EACH], float2* places, const Position& from, const Position& to) {
    constexpr unsigned step = EACH / R;
    if constexpr (DONE > 1) __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < EACH; i++) {
        const unsigned j = from.t + i % step * SPACE;
        places[from.line * PITCH + padded(j / DONE * DONE * R + j % DONE + i / step * DONE)] = v[i];
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < EACH; i++) v[i] = places[to.line * PITCH + padded(to.t + i * SPACE)];
}

// All passes after DONE elements.
template <unsigned DONE>
__device__ __forceinline__ void other_passes(float2 (&v)[EACH], const float2* __restrict__ roots, float2* places,
                                             const Position& own) {
    if constexpr (DONE < LEN) {
        pass<DONE, EACH>(v, roots, own.t);
        if constexpr (DONE * EACH < LEN) change_places<DONE, EACH>(v, places, own, own);
        other_passes<DONE * EACH>(v, roots, places, own);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    fft_lines(const float* __restrict__ x, const float* __restrict__ roots, float* __restrict__ out) {
    extern __shared__ float2 places[];
    const u64 first_line = flat_workgroup() * AT_ONCE;
    if (first_line >= LINES) return;
    const Position from = position(LOAD_ALONG), own = position(STORE_ALONG);

    // Threads past the last line transform it again, and write nothing.
    float2 v[EACH];
    {
        const u64 line = min(first_line + from.line, (u64)LINES - 1);
        const float2* base = pairs(x) + first_of(line, OUTER_IN, MIDDLE_IN) + (u64)from.t * APART_IN;
#pragma unroll
        for (unsigned i = 0; i < EACH; i++) v[i] = base[(u64)i * (SPACE * APART_IN)];
    }
    const float2* __restrict__ table = pairs(roots);
    pass<1, FIRST>(v, table, from.t);
    change_places<1, FIRST>(v, places, from, own);
    other_passes<FIRST>(v, table, places, own);

    const u64 line = first_line + own.line;
#if FIRST_PART
    // Factors of result t, times those of the bits of i times SPACE.
    const unsigned column = (unsigned)(line % INNER) / ALIKE;
    const float2 factor = root_of(table, TOTAL, own.t * column);
#pragma unroll
    for (unsigned i = 0; i < EACH; i++) v[i] = product(v[i], factor);
#pragma unroll
    for (unsigned bit = 1; bit < EACH; bit *= 2) {
        const float2 more = root_of(table, TOTAL / (SPACE * bit), column);
#pragma unroll
        for (unsigned i = 0; i < EACH; i++) {
            if (i & bit) v[i] = product(v[i], more);
        }
    }
#endif
    float2* to = pairs(out) + first_of(line, OUTER_OUT, MIDDLE_OUT) + (u64)own.t * APART_OUT;
#if HALF_SPECTRUM
    // Each result needs that of the mirrored place.
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < EACH; i++) places[own.line * PITCH + padded(own.t + i * SPACE)] = v[i];
    __syncthreads();
    if (line >= LINES) return;
#pragma unroll
    for (unsigned i = 0; i < EACH; i++) {
        const unsigned k = own.t + i * SPACE;
        const float2 mirrored = places[own.line * PITCH + padded((LEN - k) % LEN)];
        to[i * SPACE] = of_pair(v[i], mirrored, __ldg(table + 2 * LEN + k));
        // The root of half of the circle is minus one.
        if (k == 0) to[LEN] = of_pair(v[i], mirrored, make_float2(-1.0f, 0.0f));
    }
#else
    if (line >= LINES) return;
#pragma unroll
    for (unsigned i = 0; i < EACH; i++) to[(u64)i * (SPACE * APART_OUT)] = v[i];
#endif
}
