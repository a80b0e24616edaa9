// Epilogue: GELU of the sum and the column's bias. The argument is stored for the backward pass.

#import gelu/share
#import lib/pieces1

@group(0) @binding(3) var<storage, read> bias: array<elem>;
@group(0) @binding(4) var<storage, read_write> pre: array<elem>;

fn epilogue(at: u32, column: u32, sum: f32) -> f32 {
    let value = sum + f32(bias[column]);
    pre[at] = elem(value);
    return gelu_tanh(value);
}
