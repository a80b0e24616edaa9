// Copy, 16 bytes per thread. The definition is in core/workloads/src/ops/copy.rs.

#include "copy/common.cuh"
#include "lib/launch.cuh"

extern "C" __global__ void copy_vec4(const elem* __restrict__ x, elem* __restrict__ out) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index < whole_vectors) {
        store_vector(out, index, load_vector(x, index));
    } else {
        copy_rest(x, out, index);
    }
}
