// What is normalised: a sum, rounded as it is written, so that what follows does not depend on who made it.

#import add_layernorm/rounded

@group(0) @binding(5) var<storage, read> x: array<stored>;
@group(0) @binding(6) var<storage, read> residual: array<stored>;
@group(0) @binding(7) var<storage, read_write> sum: array<stored>;

fn row_value(at: u32, mine: bool) -> piece {
    let value = rounded(piece(x[at]) + piece(residual[at]));
    if mine {
        sum[at] = stored(value);
    }
    return value;
}
