// Epilogue that leaves sums unchanged.

fn epilogue(at: u32, column: u32, sum: f32) -> f32 {
    return sum;
}
