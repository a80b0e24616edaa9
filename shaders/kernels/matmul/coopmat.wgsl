enable wgpu_cooperative_matrix;
// Matrix product on matrix units. The definition is in core/workloads/src/ops/matmul.rs.

#import lib/product_as_is
#import lib/product_coopmat
