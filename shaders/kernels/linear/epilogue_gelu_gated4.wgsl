// Epilogue on four columns, as in `epilogue_residual4`: the sums multiplied by a function of the gate at the same places.

#import lib/f16x4
#import lib/pieces4
#import mlp_glu/share

#if PACKED
@group(0) @binding(3) var<storage, read> gate: array<F16x4>;
#else
@group(0) @binding(3) var<storage, read> gate: array<f16>;
#endif

fn epilogue(at: u32, column: u32, there: u32, sum: vec4<f32>) -> vec4<f32> {
#if PACKED
    let before = floats_of(gate[at / 4u]);
#else
    var before = vec4<f32>();
    for (var i = 0u; i < min(there, 4u); i++) { before[i] = f32(gate[at + i]); }
#endif
    return gelu_tanh(before) * sum;
}
