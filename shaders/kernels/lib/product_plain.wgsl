// Elements of a product as they are.

fn finished(at: u32, column: u32, sum: f32) -> f32 {
    return sum;
}
