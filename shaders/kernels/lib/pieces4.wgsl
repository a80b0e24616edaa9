// Pieces of four neighbouring elements, moved as one: see `pieces1`.

#import lib/nan

alias stored = vec4<elem>;
alias piece = vec4<f32>;

fn piece_sum(x: piece) -> f32 {
    return (x.x + x.y) + (x.z + x.w);
}

fn piece_max(x: piece) -> f32 {
    return max(max(x.x, x.y), max(x.z, x.w));
}

fn piece_maximum(x: piece) -> f32 {
    return maximum(maximum(x.x, x.y), maximum(x.z, x.w));
}

fn larger(a: piece, b: piece) -> piece {
    return maximum4(a, b);
}

fn piece_relu(x: piece) -> piece {
    return relu4(x);
}

fn gated_by(result: piece, gradient: piece) -> piece {
    return select(gradient, piece(), (result <= piece()) & !are_nan(result));
}

fn nan_in(x: piece) -> vec4<bool> {
    return are_nan(x);
}
