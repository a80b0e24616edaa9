// One where a piece of one element is the target of its row, and zero elsewhere.

fn at_target(column: u32, chosen: u32) -> piece {
    return select(0.0, 1.0, column == chosen);
}
