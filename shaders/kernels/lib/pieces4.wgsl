// Rows in pieces of four neighbouring elements, moved as one: see `pieces1`.

alias stored = vec4<elem>;
alias piece = vec4<f32>;

fn piece_sum(x: piece) -> f32 {
    return (x.x + x.y) + (x.z + x.w);
}

fn piece_max(x: piece) -> f32 {
    return max(max(x.x, x.y), max(x.z, x.w));
}
