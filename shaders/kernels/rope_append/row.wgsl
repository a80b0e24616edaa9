// Row of the cache for a position of a token's sequence.
fn cache_row(token: u32, position: u32, value: u32, key_head: u32) -> u32 {
    let page = table[token / STEP * PAGES + position / PAGE];
    return ((value * ALL_PAGES + page) * PAGE + position % PAGE) * KEY_HEADS + key_head;
}
