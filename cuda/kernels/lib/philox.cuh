// Random words by counter: Philox 4x32 with ten rounds, of Salmon, Moraes, Dror and Shaw (2011).

#include "lib/elem.cuh"

// The four random words of a counter under a key.
__device__ __forceinline__ uint4 philox(uint4 words, uint2 key) {
#pragma unroll
    for (unsigned round = 0; round < 10; round++) {
        // 64-bit products: one instruction gives both halves.
        const u64 first = (u64)0xD2511F53u * words.x, third = (u64)0xCD9E8D57u * words.z;
        words = make_uint4((unsigned)(third >> 32) ^ words.y ^ key.x, (unsigned)third,
                           (unsigned)(first >> 32) ^ words.w ^ key.y, (unsigned)first);
        key = make_uint2(key.x + 0x9E3779B9u, key.y + 0xBB67AE85u);
    }
    return words;
}
