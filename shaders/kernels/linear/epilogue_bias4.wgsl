// Epilogue on four columns: adds their bias. The first column is a multiple of four, and `there` of the columns exist.

#import lib/f16x4

@group(0) @binding(3) var<storage, read> bias: array<F16x4>;

fn epilogue(at: u32, column: u32, there: u32, sum: vec4<f32>) -> vec4<f32> {
    return sum + floats_of(bias[column / 4u]);
}
