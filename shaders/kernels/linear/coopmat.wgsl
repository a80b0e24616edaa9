enable wgpu_cooperative_matrix;
// GEMM on matrix units and its epilogue in one stage: see linear/tiled. The definition is in core/workloads/src/ops/linear.

#import lib/product_coopmat
#import linear/epilogue_{EPILOGUE}4
