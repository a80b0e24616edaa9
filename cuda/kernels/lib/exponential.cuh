// Exponentials of rows, by the hardware's power of two.

#include "lib/exp2.cuh"

// e^x for x of at most zero: off by |x| + 4 units in the last place at most, and zero where the result is not normal.
__device__ __forceinline__ float exponential(float x) { return exp2_fast(x * LOG2_E); }
