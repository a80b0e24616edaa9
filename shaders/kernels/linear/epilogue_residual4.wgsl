// Epilogue on four columns, as in `epilogue_bias4`: GELU of the sums and the columns' bias, added to the residual.

#import gelu/share
#import lib/f16x4
#import lib/pieces4

@group(0) @binding(3) var<storage, read> bias: array<F16x4>;
#if PACKED
@group(0) @binding(4) var<storage, read> residual: array<F16x4>;
#else
@group(0) @binding(4) var<storage, read> residual: array<f16>;
#endif

fn epilogue(at: u32, column: u32, there: u32, sum: vec4<f32>) -> vec4<f32> {
#if PACKED
    let before = floats_of(residual[at / 4u]);
#else
    var before = vec4<f32>();
    for (var i = 0u; i < min(there, 4u); i++) { before[i] = f32(residual[at + i]); }
#endif
    return gelu_tanh(sum + floats_of(bias[column / 4u])) + before;
}
