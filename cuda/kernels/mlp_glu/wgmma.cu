// GEMM by warpgroups whose sums are multiplied by a function of the gate, from tensor maps. The definition is in
// core/workloads/src/ops/mlp_glu.rs.

#include "lib/pair.cuh"
#include "lib/product_wgmma.cuh"
#include "mlp_glu/share.cuh"

// Epilogue on two neighbouring sums of a row.
template <bool gelu>
struct GatedPairs {
    static constexpr bool READS = true, KEEPS = false;
    const CUtensorMap& gate;

    __device__ __forceinline__ const CUtensorMap& read() const { return gate; }
    __device__ __forceinline__ unsigned of_columns(unsigned) const { return 0; }

    __device__ __forceinline__ unsigned operator()(unsigned, float x, float y, unsigned read, unsigned&) const {
        const float2 at = unpack(read);
        return gelu ? pack(gelu_tanh(at.x) * x, gelu_tanh(at.y) * y) : pack(gate_silu(at.x) * x, gate_silu(at.y) * y);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_wgmma_silu_gated(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                            const __grid_constant__ CUtensorMap c, const __grid_constant__ CUtensorMap gate) {
    product_wgmma(a, b, c, GatedPairs<false>{gate});
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_wgmma_gelu_gated(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                            const __grid_constant__ CUtensorMap c, const __grid_constant__ CUtensorMap gate) {
    product_wgmma(a, b, c, GatedPairs<true>{gate});
}
