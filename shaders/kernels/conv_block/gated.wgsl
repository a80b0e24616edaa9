// The gradient of what ReLU was given, and what was normalised, piece by piece. With GATED the gradient is that of the result, of which
// nothing is left where the result is zero or below; otherwise this has been done.

@group(0) @binding(0) var<storage, read> gradient: array<stored>;
@group(0) @binding(1) var<storage, read> given: array<stored>;

fn gradient_at(at: u32) -> piece {
#if GATED
    return gated_by(piece(result[at]), piece(gradient[at]));
#else
    return piece(gradient[at]);
#endif
}
