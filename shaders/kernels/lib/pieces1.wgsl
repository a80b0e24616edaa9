// Rows in pieces of one element, for those whose length is no multiple of four. What is computed is written in pieces, and
// its text imports either this file or `pieces4`.

// A piece as it lies in memory, and as it is computed with.
alias stored = elem;
alias piece = f32;

fn piece_sum(x: piece) -> f32 {
    return x;
}

fn piece_max(x: piece) -> f32 {
    return x;
}
