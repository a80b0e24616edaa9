enable wgpu_cooperative_matrix;
// A product on matrix units and a bias and GELU in one stage. The definition is in core/src/suite/workloads/linear.

#import lib/product_coopmat
#import linear/wide_gelu
