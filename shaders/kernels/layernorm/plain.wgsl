// Rows of layer normalisation itself.

@group(0) @binding(5) var<storage, read> x: array<stored>;

fn row_value(at: u32, mine: bool) -> piece {
    return piece(x[at]);
}
