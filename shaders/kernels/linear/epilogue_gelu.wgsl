// Epilogue: GELU of the sum and the column's bias.

#import gelu/share
#import lib/pieces1

@group(0) @binding(3) var<storage, read> bias: array<elem>;

fn epilogue(at: u32, column: u32, sum: f32) -> f32 {
    return gelu_tanh(sum + f32(bias[column]));
}
