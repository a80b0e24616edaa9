// Where tokens lie in the caches of attention_decode: pages of PAGE tokens, of which a sequence has up to PAGES.

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read> table: array<u32>;
@group(0) @binding(4) var<storage, read> lengths: array<u32>;

// The first element of a token's key or value for a head of keys.
fn cache_at(sequence: u32, token: u32, key_head: u32) -> u32 {
    let entry = sequence * PAGES + token / PAGE;
    var page = entry;
    if !CONTIGUOUS {
        page = table[entry];
    }
    return ((page * PAGE + token % PAGE) * KEY_HEADS + key_head) * D;
}
