// Shared by the variants of attention: the mask. Of the HEADS heads of queries, each GROUP neighbours have one head of keys
// and values.

// Number of keys that query i sees: all, or those up to the diagonal that ends at the last key.
fn visible(i: u32) -> u32 {
    if !CAUSAL {
        return T;
    }
    return min(T, max(i + 1u + T, S) - S);
}

// The first query that sees key j, S or more where none does.
fn first_query(j: u32) -> u32 {
    if !CAUSAL {
        return 0u;
    }
    return max(j + S, T) - T;
}
