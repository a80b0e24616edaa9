// Functions of a gate, on sums in f32. The definition is in core/workloads/src/ops/mlp_glu.rs.

#include "gelu/share.cuh"

// Exponentials and quotients are approximate, as GELU's.
__device__ __forceinline__ float gate_silu(float x) { return x * __fdividef(1.0f, 1.0f + __expf(fminf(-x, 80.0f))); }
