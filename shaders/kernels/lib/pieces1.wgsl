// Pieces of one element, for rows whose length is no multiple of four. Kernels import this file or `pieces4` by the constant
// WIDTH.

#import lib/nan

// A piece as in memory, and as f32 for arithmetic.
alias stored = elem;
alias piece = f32;

fn piece_sum(x: piece) -> f32 {
    return x;
}

// May lose NaN: only for arguments of exponentials, which keep it.
fn piece_max(x: piece) -> f32 {
    return x;
}

// Maxima that keep NaN.
fn piece_maximum(x: piece) -> f32 {
    return x;
}

fn larger(a: piece, b: piece) -> piece {
    return maximum(a, b);
}

fn piece_relu(x: piece) -> piece {
    return relu(x);
}

// Gradient before ReLU: zero where its result is zero or below. NaN passes.
fn gated_by(result: piece, gradient: piece) -> piece {
    return select(gradient, 0.0, result <= 0.0 && !is_nan(result));
}

fn nan_in(x: piece) -> bool {
    return is_nan(x);
}
