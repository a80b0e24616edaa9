// Value of one column, loaded in pieces of four neighbours: the window begins SKIP elements into the first piece.

#import lib/pieces4

alias value = f32;

fn relu_value(x: value) -> value {
    return relu(x);
}

fn set_piece(window: ptr<function, array<value, WINDOW>>, load: u32, piece: stored) {
    let four = vec4<f32>(piece);
    for (var i = 0u; i < 4u; i++) {
        let at = load * 4u + i - SKIP;
        if at < WINDOW {
            (*window)[at] = four[i];
        }
    }
}
