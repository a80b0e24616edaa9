// Gradient before ReLU, and normalised values, piece by piece. With GATED the gradient is the result's, which becomes zero where
// the result is zero or below. Otherwise an earlier stage has done this.

@group(0) @binding(0) var<storage, read> gradient: array<stored>;
@group(0) @binding(1) var<storage, read> given: array<stored>;

fn gradient_at(at: u32) -> piece {
#if GATED
    return gated_by(piece(result[at]), piece(gradient[at]));
#else
    return piece(gradient[at]);
#endif
}
