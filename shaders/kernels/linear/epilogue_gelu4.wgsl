// What becomes of four sums, as in `wide_bias`: GELU of them and the bias of their columns.

#import gelu/share
#import lib/fours
#import lib/pieces4

@group(0) @binding(3) var<storage, read> bias: array<Four>;

fn finished(at: u32, column: u32, there: u32, sum: vec4<f32>) -> vec4<f32> {
    return gelu_tanh(sum + floats_of(bias[column / 4u]));
}
