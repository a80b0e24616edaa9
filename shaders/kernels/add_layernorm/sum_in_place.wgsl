// What is normalised: a sum, rounded as it is written over one of its terms.

#import add_layernorm/rounded

@group(0) @binding(5) var<storage, read> x: array<stored>;
@group(0) @binding(6) var<storage, read_write> sum: array<stored>;

fn row_value(at: u32, mine: bool) -> piece {
    // Threads that only go along may read what others have written already; nothing comes of it.
    let value = rounded(piece(x[at]) + piece(sum[at]));
    if mine {
        sum[at] = stored(value);
    }
    return value;
}
