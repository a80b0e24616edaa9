// Position of a thread in kernels whose workgroups process several rows, each by LANES threads.

// Declares the thread's row, the index of the row's first piece, and the thread's index in the row. Threads past the last row take
// part in barriers: they read the last row, and write nothing.
#block own_row(ROW, BASE, LANE)
    let first = flat_group(group, groups) * (THREADS / LANES);
    if first >= ROWS {
        return;
    }
    let ROW = first + thread / LANES;
    let BASE = min(ROW, ROWS - 1u) * ROW_PIECES;
    let LANE = thread % LANES;
#end
