// What is normalised: a sum, rounded as it is written over one of its terms; added in the element type, as in `sum`.

@group(0) @binding(5) var<storage, read> x: array<stored>;
@group(0) @binding(6) var<storage, read_write> sum: array<stored>;

fn row_value(at: u32, mine: bool) -> piece {
    // Threads that only go along may read what others have written already; nothing comes of it.
    let value = x[at] + sum[at];
    if mine {
        sum[at] = value;
    }
    return piece(value);
}
