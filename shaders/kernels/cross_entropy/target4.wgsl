// One where a piece of four elements has the target of its row, and zero elsewhere.

fn at_target(column: u32, chosen: u32) -> piece {
    let columns = 4u * column + vec4<u32>(0u, 1u, 2u, 3u);
    return select(piece(0.0), piece(1.0), columns == vec4<u32>(chosen));
}
