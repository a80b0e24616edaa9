// Epilogue on four columns that leaves sums unchanged.

fn epilogue(at: u32, column: u32, there: u32, sum: vec4<f32>) -> vec4<f32> {
    return sum;
}
