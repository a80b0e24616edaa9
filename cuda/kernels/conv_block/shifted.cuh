// Sums of a few values, kept as distances from the first of them, and of the squares of these. As that value is one of the few,
// little is lost when squares around another number are told from these.

#include "lib/elem.cuh"

struct Shifted {
    float first, far, far_squared;

    __device__ __forceinline__ void add(float x, bool begin) {
        if (begin) first = x;
        const float by = x - first;
        far += by;
        far_squared = fmaf(by, by, far_squared);
    }

    // Of so many values.
    __device__ __forceinline__ float sum(float count) const { return fmaf(count, first, far); }

    // Squares of distances from another number, of so many values.
    __device__ __forceinline__ float around(float middle, float count) const {
        if (count == 0.0f) return 0.0f;
        const float further = far / count, from_middle = first + further - middle;
        return fmaxf(far_squared - further * far, 0.0f) + count * from_middle * from_middle;
    }
};
