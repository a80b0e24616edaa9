// Complex numbers of a transform, and its roots of unity. The table is described in core/workloads/src/ops/fft/roots.rs.

// Numbers of a buffer, as pairs of floats.
__device__ __forceinline__ const float2* pairs(const float* x) { return reinterpret_cast<const float2*>(x); }

__device__ __forceinline__ float2* pairs(float* x) { return reinterpret_cast<float2*>(x); }

__device__ __forceinline__ float2 sum(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }

__device__ __forceinline__ float2 difference(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }

__device__ __forceinline__ float2 product(float2 a, float2 b) {
    return make_float2(fmaf(a.x, b.x, -a.y * b.y), fmaf(a.x, b.y, a.y * b.x));
}

// Result k of real numbers, from results k and n - k of their pairs, and root k of order 2n: the root times the odd part, times minus
// the imaginary unit.
__device__ __forceinline__ float2 of_pair(float2 own, float2 other, float2 root) {
    const float2 even = make_float2(own.x + other.x, own.y - other.y), odd = make_float2(own.x - other.x, own.y + other.y);
    const float re = fmaf(root.x, odd.y, root.y * odd.x), im = fmaf(root.y, odd.y, -root.x * odd.x);
    return make_float2(0.5f * (even.x + re), 0.5f * (even.y + im));
}
