// Appends new tokens in a stage of its own, before `naive` and `split`. The definition is in
// core/workloads/src/ops/attention_decode.
//
// attention_decode_append  one thread per element of the new keys and values

#include "attention_decode/cache.cuh"

extern "C" __global__ void attention_decode_append(elem* __restrict__ k, elem* __restrict__ v,
                                                   const elem* __restrict__ new_k, const elem* __restrict__ new_v,
                                                   const unsigned* __restrict__ table,
                                                   const unsigned* __restrict__ lengths) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= (u64)SEQUENCES * KEY_HEADS * D) return;
    const unsigned sequence = (unsigned)(index / (KEY_HEADS * D)), length = lengths[sequence];
    if (length == 0) return;
    const u64 to = cache_at(table, sequence, length - 1, (unsigned)(index / D % KEY_HEADS)) + index % D;
    k[to] = new_k[index];
    v[to] = new_v[index];
}
