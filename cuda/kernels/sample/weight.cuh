// Weight of a logit: its exponential relative to the largest logit of its row.

#include "lib/launch.cuh"

__device__ __forceinline__ float weight(float x, float top) { return expf((x - top) / TEMPERATURE); }

__device__ __forceinline__ bool is_finite(float x) { return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u; }

__device__ __forceinline__ float not_a_number() { return __uint_as_float(0x7FC00000u); }
