// Normalised values: a sum, rounded as stored, so that the normalisation does not depend on the variant. It is added in the
// element type: some compilers (NVIDIA's for Vulkan) remove a conversion to f16 and back, and continue unrounded.

@group(0) @binding(5) var<storage, read> x: array<stored>;
@group(0) @binding(6) var<storage, read> residual: array<stored>;
@group(0) @binding(7) var<storage, read_write> sum: array<stored>;

fn row_value(at: u32, mine: bool) -> piece {
    let value = x[at] + residual[at];
    if mine {
        sum[at] = value;
    }
    return piece(value);
}
