// Overlap of boxes with corners (x, y) and (z, w). Every step but the product with THRESHOLD is exact for the suite's boxes.

#include "lib/launch.cuh"

__device__ __forceinline__ float area_of(const float4& a) { return (a.z - a.x) * (a.w - a.y); }

__device__ __forceinline__ bool overlaps(const float4& a, float area, const float4& b, float other) {
    const float width = fmaxf(fminf(a.z, b.z) - fmaxf(a.x, b.x), 0.0f);
    const float height = fmaxf(fminf(a.w, b.w) - fmaxf(a.y, b.y), 0.0f);
    const float inter = width * height;
    return inter > THRESHOLD * (area + other - inter);
}
