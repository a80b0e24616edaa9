// Reduction by atomic operations: a block makes one number of OF_A_GROUP elements, and puts it to the result. The definition is in
// core/workloads/src/ops/reduce.rs.

#include "lib/launch.cuh"
#include "reduce/common.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_atomic(const elem* __restrict__ x, float* __restrict__ out) {
    const u64 first = flat_workgroup() * OF_A_GROUP;
    if (first >= N) return;
    const u64 end = first + OF_A_GROUP < N ? first + OF_A_GROUP : N;
    // Any element of the block is a beginning of a maximum.
    float mine = LARGEST ? load(x[first]) : 0.0f;
    for (u64 i = first + threadIdx.x; i < end; i += THREADS) mine = joined(mine, load(x[i]));
    const float all = of_block(mine);
    if (threadIdx.x != 0) return;
    if constexpr (LARGEST) {
        // Bits of floats rise with the number where it is positive, and fall where it is negative. The sum makes minus zero plus
        // zero, whose bits are on the right side. Above those of all numbers are those of NaN without a sign.
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
