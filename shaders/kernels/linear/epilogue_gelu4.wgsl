// Epilogue on four columns, as in `epilogue_bias4`: GELU of the sums and the columns' bias.

#import gelu/share
#import lib/f16x4
#import lib/pieces4

@group(0) @binding(3) var<storage, read> bias: array<F16x4>;

fn epilogue(at: u32, column: u32, there: u32, sum: vec4<f32>) -> vec4<f32> {
    return gelu_tanh(sum + floats_of(bias[column / 4u]));
}
