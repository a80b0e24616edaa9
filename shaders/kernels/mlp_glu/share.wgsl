// Functions of a gate, of a piece. The definition is in core/workloads/src/ops/mlp_glu.rs.

#import gelu/share

fn gate_silu(x: piece) -> piece {
    return x * (piece(1.0) / (piece(1.0) + exp(min(-x, piece(80.0)))));
}
