// Random words by counter: Philox 4x32 with ten rounds, of Salmon, Moraes, Dror and Shaw (2011).

// The four random words of a counter under a key.
__device__ __forceinline__ uint4 philox(uint4 words, uint2 key) {
#pragma unroll
    for (unsigned round = 0; round < 10; round++) {
        const unsigned first = __umulhi(0xD2511F53u, words.x), third = __umulhi(0xCD9E8D57u, words.z);
        words = make_uint4(third ^ words.y ^ key.x, 0xCD9E8D57u * words.z, first ^ words.w ^ key.y, 0xD2511F53u * words.x);
        key = make_uint2(key.x + 0x9E3779B9u, key.y + 0xBB67AE85u);
    }
    return words;
}
