// Reduction by atomic operations: a block reduces OF_A_GROUP elements, and combines its number with the result atomically. The
// definition is in core/workloads/src/ops/reduce.rs.

#include "lib/launch.cuh"
#include "reduce/common.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_atomic(const elem* __restrict__ x, float* __restrict__ out) {
    const u64 first = flat_workgroup() * OF_A_GROUP;
    if (first >= N) return;
    const u64 end = first + OF_A_GROUP < N ? first + OF_A_GROUP : N;
    // Any element of the block is a valid initial maximum.
    float mine = LARGEST ? load(x[first]) : 0.0f;
    for (u64 i = first + threadIdx.x; i < end; i += THREADS) mine = joined(mine, load(x[i]));
    const float all = of_block(mine);
    if (threadIdx.x != 0) return;
    if constexpr (LARGEST) {
        // Bits of floats increase with the number where it is positive, and decrease where it is negative. The addition maps
        // minus zero to zero, which has the right bits. NaN without a sign has bits above those of all numbers.
        const float value = all + 0.0f;
        if (value < 0.0f) {
            atomicMin(reinterpret_cast<unsigned*>(out), __float_as_uint(value));
        } else {
            atomicMax(reinterpret_cast<int*>(out), is_nan(value) ? 0x7FFFFFFF : __float_as_int(value));
        }
    } else {
        atomicAdd(out, all);
    }
}
