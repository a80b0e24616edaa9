// Epilogue: adds the column's bias.

@group(0) @binding(3) var<storage, read> bias: array<elem>;

fn epilogue(at: u32, column: u32, sum: f32) -> f32 {
    return sum + f32(bias[column]);
}
