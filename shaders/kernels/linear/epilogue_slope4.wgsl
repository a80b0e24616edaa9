// Epilogue of GELU's backward pass on four columns, as in `epilogue_bias4`: the sums, gradients of GELU's result, times the slope
// at GELU's argument. GELU's result is computed again.

#import gelu/share
#import lib/f16x4
#import lib/pieces4

#if PACKED
@group(0) @binding(3) var<storage, read> pre: array<F16x4>;
@group(0) @binding(4) var<storage, read_write> hidden: array<F16x4>;
#else
@group(0) @binding(3) var<storage, read> pre: array<f16>;
@group(0) @binding(4) var<storage, read_write> hidden: array<f16>;
#endif

fn epilogue(at: u32, column: u32, there: u32, sum: vec4<f32>) -> vec4<f32> {
#if PACKED
    let value = floats_of(pre[at / 4u]);
    hidden[at / 4u] = f16x4_of(gelu_tanh(value));
#else
    var value = vec4<f32>();
    for (var i = 0u; i < min(there, 4u); i++) { value[i] = f32(pre[at + i]); }
    let again = gelu_tanh(value);
    for (var i = 0u; i < min(there, 4u); i++) { hidden[at + i] = f16(again[i]); }
#endif
    return sum * slope_tanh(value);
}
