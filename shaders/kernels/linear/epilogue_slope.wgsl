// Epilogue of GELU's backward pass: the sum, a gradient of GELU's result, times the slope at GELU's argument. GELU's result is
// computed again.

#import gelu/share
#import lib/pieces1

@group(0) @binding(3) var<storage, read> pre: array<elem>;
@group(0) @binding(4) var<storage, read_write> hidden: array<elem>;

fn epilogue(at: u32, column: u32, sum: f32) -> f32 {
    let value = f32(pre[at]);
    hidden[at] = elem(gelu_tanh(value));
    return sum * slope_tanh(value);
}
