// Epilogues of `lib/product_wgmma.cuh`: those of `linear/epilogue.cuh` on two neighbouring sums of a row.

#include "gelu/fast.cuh"
#include "lib/pair.cuh"
#include "lib/tma.cuh"

// Adds the column's bias.
struct BiasPairs {
    static constexpr bool READS = false, KEEPS = false;
    const elem* __restrict__ bias;

    __device__ __forceinline__ unsigned of_columns(unsigned column) const { return load_pair(bias + column); }

    __device__ __forceinline__ unsigned operator()(unsigned bias_pair, float x, float y, unsigned, unsigned&) const {
        const float2 added = unpack(bias_pair);
        return pack(x + added.x, y + added.y);
    }
};

// GELU of the biased sums.
struct GeluPairs : BiasPairs {
    __device__ __forceinline__ unsigned operator()(unsigned bias_pair, float x, float y, unsigned, unsigned&) const {
        const float2 added = unpack(bias_pair);
        return pack(gelu_fast(x + added.x), gelu_fast(y + added.y));
    }
};

// The same, added to a residual.
struct ResidualPairs : BiasPairs {
    static constexpr bool READS = true;
    const CUtensorMap& residual;

    __device__ __forceinline__ ResidualPairs(const elem* bias, const CUtensorMap& residual)
        : BiasPairs{bias}, residual(residual) {}

    __device__ __forceinline__ const CUtensorMap& read() const { return residual; }

    __device__ __forceinline__ unsigned operator()(unsigned bias_pair, float x, float y, unsigned read, unsigned&) const {
        const float2 added = unpack(bias_pair), rest = unpack(read);
        return pack(gelu_fast(x + added.x) + rest.x, gelu_fast(y + added.y) + rest.y);
    }
};

// GELU of the biased sums, which are stored too.
struct KeptPairs : BiasPairs {
    static constexpr bool KEEPS = true;
    const CUtensorMap& pre;

    __device__ __forceinline__ KeptPairs(const elem* bias, const CUtensorMap& pre) : BiasPairs{bias}, pre(pre) {}

    __device__ __forceinline__ const CUtensorMap& kept() const { return pre; }

    __device__ __forceinline__ unsigned operator()(unsigned bias_pair, float x, float y, unsigned, unsigned& stored) const {
        const float2 added = unpack(bias_pair);
        const float2 value = make_float2(x + added.x, y + added.y);
        stored = pack(value.x, value.y);
        return pack(gelu_fast(value.x), gelu_fast(value.y));
    }
};

// Sums times GELU's slope, and GELU again. A warp reads a piece before it writes it: both may be one buffer.
struct SlopePairs {
    static constexpr bool READS = true, KEEPS = true;
    const CUtensorMap &pre, &hidden;

    __device__ __forceinline__ const CUtensorMap& read() const { return pre; }
    __device__ __forceinline__ const CUtensorMap& kept() const { return hidden; }
    __device__ __forceinline__ unsigned of_columns(unsigned) const { return 0; }

    __device__ __forceinline__ unsigned operator()(unsigned, float x, float y, unsigned read, unsigned& stored) const {
        const float2 value = unpack(read);
        const float2 first = gelu_and_slope(value.x), second = gelu_and_slope(value.y);
        stored = pack(first.x, second.x);
        return pack(x * first.y, y * second.y);
    }
};
