enable wgpu_cooperative_matrix;
// GEMM on matrix units. The definition is in core/workloads/src/ops/matmul.

#import lib/product_as_is
#import lib/product_coopmat
