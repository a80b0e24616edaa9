// Place of a workgroup in its table: a strip of rows times a block of columns, LANES threads per row. The definition is in
// core/workloads/src/ops/standard_scaler.rs.

#import lib/launch

// Pieces of a row of the table, and rows that a workgroup processes at a time.
const ROW_PIECES: u32 = COLUMNS / WIDTH;
const DOWN: u32 = THREADS / LANES;

struct Place {
    // Strip, its first row, one past its last, and the thread's piece of a row.
    part: u32,
    begin: u32,
    end: u32,
    piece_at: u32,
}

fn place_of(flat: u32, lane: u32) -> Place {
    let part = flat / BLOCKS;
    let begin = part * STRIP;
    return Place(part, begin, begin + min(STRIP, ROWS - begin), flat % BLOCKS * LANES + lane % LANES);
}
