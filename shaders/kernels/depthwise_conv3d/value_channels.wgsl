// Value of four neighbouring channels.

#import lib/pieces4

alias value = vec4<f32>;

fn relu_value(x: value) -> value {
    return relu4(x);
}

fn set_piece(window: ptr<function, array<value, WINDOW>>, load: u32, piece: stored) {
    (*window)[load] = vec4<f32>(piece);
}
