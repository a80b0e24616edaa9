// Epilogue on four columns, as in `epilogue_bias4`: GELU of the sums and the columns' bias. The argument is stored for the
// backward pass.

#import gelu/share
#import lib/f16x4
#import lib/pieces4

@group(0) @binding(3) var<storage, read> bias: array<F16x4>;
#if PACKED
@group(0) @binding(4) var<storage, read_write> pre: array<F16x4>;
#else
@group(0) @binding(4) var<storage, read_write> pre: array<f16>;
#endif

fn epilogue(at: u32, column: u32, there: u32, sum: vec4<f32>) -> vec4<f32> {
    let value = sum + floats_of(bias[column / 4u]);
#if PACKED
    pre[at / 4u] = f16x4_of(value);
#else
    for (var i = 0u; i < min(there, 4u); i++) { pre[at + i] = f16(value[i]); }
#endif
    return gelu_tanh(value);
}
