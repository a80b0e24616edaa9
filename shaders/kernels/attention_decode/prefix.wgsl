// Rows of queries beside a shared prefix, in place of attention_decode/cache alone.
//
// A stage has SETS sets of rows for each head of keys, and tokens from FIRST to before LAST: rows of one sequence each, or those of
// all sequences. Its parts follow FIRST_PART others of ALL_PARTS.

#import attention_decode/cache

// Row of the output that is number `i` of a share of a set: sequence by sequence.
fn row_of(share: u32, i: u32) -> u32 {
    let group = HEADS / KEY_HEADS;
    let of_set = share % SHARES * HELD + i;
    return share / SHARES * group + of_set / group * HEADS + of_set % group;
}

// Tokens of the sequence of that row. Rows past the share have those of its last.
fn tokens_of(share: u32, i: u32) -> u32 {
    return lengths[row_of(share, min(i, HELD - 1u)) / HEADS];
}
