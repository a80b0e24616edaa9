// Positions and places of `rope_append`: STEP new tokens of each sequence, and a cache of keys (0) and values (1) in pages of PAGE
// tokens, at most PAGES per sequence.

const TOKEN_HEADS: u32 = HEADS + 2u * KEY_HEADS;
const PADDING: u32 = 0xffffffffu;

// Position of a new token, or PADDING before the beginning of its sequence.
fn position_of(token: u32) -> u32 {
    let end = lengths[token / STEP] + token % STEP;
    return select(end - STEP, PADDING, end < STEP);
}
