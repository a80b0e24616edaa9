// Value of one element, loaded as such.

#import lib/pieces1

alias value = f32;

fn relu_value(x: value) -> value {
    return relu(x);
}

fn set_piece(window: ptr<function, array<value, WINDOW>>, load: u32, piece: stored) {
    (*window)[load] = f32(piece);
}
