// Sums of distances, and of squared distances, from the first of some values. That value is one of the few summed, so little
// precision is lost by deriving distances from another number.

#include "lib/elem.cuh"

struct Shifted {
    float first, far, far_squared;

    __device__ __forceinline__ void add(float x, bool begin) {
        if (begin) first = x;
        const float by = x - first;
        far += by;
        far_squared = fmaf(by, by, far_squared);
    }

    // Sum of `count` values.
    __device__ __forceinline__ float sum(float count) const { return fmaf(count, first, far); }

    // Sum of squared distances of `count` values from another number.
    __device__ __forceinline__ float around(float middle, float count) const {
        if (count == 0.0f) return 0.0f;
        const float further = far / count, from_middle = first + further - middle;
        return fmaxf(far_squared - further * far, 0.0f) + count * from_middle * from_middle;
    }
};
