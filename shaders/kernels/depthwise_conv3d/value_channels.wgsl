// Four neighbouring channels are computed with at once.

#import lib/pieces4

// Numbers of a value.
const LANES: u32 = 4u;
alias value = vec4<f32>;

fn put(window: ptr<function, array<value, WINDOW>>, load: u32, piece: stored) {
    (*window)[load] = vec4<f32>(piece);
}
