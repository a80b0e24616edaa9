// Normalised values: a sum, rounded as it is stored over a term; added in the element type, as in `sum`.

@group(0) @binding(5) var<storage, read> x: array<stored>;
@group(0) @binding(6) var<storage, read_write> sum: array<stored>;

fn row_value(at: u32, mine: bool) -> piece {
    // Threads without a row may read values that others have already stored. They store nothing.
    let value = x[at] + sum[at];
    if mine {
        sum[at] = value;
    }
    return piece(value);
}
