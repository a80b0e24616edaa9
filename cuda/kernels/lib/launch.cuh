// Index of a block in its launch.

#include "lib/elem.cuh"

// Launches spread workgroups over two grid dimensions; this is the flat index. Blocks past the count must do nothing.
__device__ __forceinline__ u64 flat_workgroup() { return (u64)blockIdx.y * gridDim.x + blockIdx.x; }
