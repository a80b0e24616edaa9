// Sums over the rows that a workgroup processes at a time, AT_ONCE of them, each shared by LANES of its THREADS.

const AT_ONCE: u32 = THREADS / LANES;

var<workgroup> of_threads: array<piece, THREADS>;

// Sum over the threads with the same place in their rows, for the threads of the first row. All threads must call.
fn over_rows(thread: u32, mine: piece) -> piece {
    of_threads[thread] = mine;
    workgroupBarrier();
    var sum = piece();
    for (var i = 0u; i < AT_ONCE; i++) {
        sum += of_threads[i * LANES + thread % LANES];
    }
    workgroupBarrier();
    return sum;
}
