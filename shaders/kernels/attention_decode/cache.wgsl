// Index arithmetic of the caches of attention_decode: pages of PAGE tokens, at most PAGES per sequence.

// First element of a token's key or value for a head of keys.
fn cache_at(sequence: u32, token: u32, key_head: u32) -> u32 {
    let entry = sequence * PAGES + token / PAGE; //= PREFIXED: let entry = select(sequence, 0u, token < PREFIX) * PAGES + token / PAGE;
    var page = entry;
    if !CONTIGUOUS {
        page = table[entry];
    }
    return ((page * PAGE + token % PAGE) * KEY_HEADS + key_head) * D;
}

// Stores element `x` of a sequence's new key and value at the place of its last token.
#if APPENDS
fn append(sequence: u32, key_head: u32, x: u32) {
    let to = cache_at(sequence, lengths[sequence] - 1u, key_head) + x;
    let own = (sequence * KEY_HEADS + key_head) * D + x;
    k[to] = new_k[own];
    v[to] = new_v[own];
}
#endif
