// Queries, keys and values of 16-bit floats, eight elements at a time, and the output. PACKED: rows are whole eights. WHOLE: besides, all
// tiles are whole, and nothing asks whether an element is there.

#import lib/eights

@group(0) @binding(0) var<storage, read> q: array<Eight>;
@group(0) @binding(1) var<storage, read> k: array<Eight>;
@group(0) @binding(2) var<storage, read> v: array<Eight>;
#if PACKED
@group(0) @binding(3) var<storage, read_write> out: array<Eight>;
#else
@group(0) @binding(3) var<storage, read_write> out: array<f16>;
#endif

// Columns col .. col + 7 of a query, zeros outside; col is a multiple of eight.
fn eight_of_q(head: u32, row: u32, col: u32) -> Eight {
    if !WHOLE && (row >= S || col >= D) {
        return Eight();
    }
    let at = (head * S + row) * D + col;
    if PACKED {
        return q[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(q[(at + i) / 8u], at + i);
    }
    return eight_from(all);
}

// The e-th eight of a tile of keys that begins with this one.
fn key_eight(head: u32, first: u32, e: u32) -> Eight {
    let row = first + e / (WIDTH / 8u);
    let col = e % (WIDTH / 8u) * 8u;
    // Threads may be more than the last eights.
    if e >= KEYS * (WIDTH / 8u) || (!WHOLE && (row >= T || col >= D)) {
        return Eight();
    }
    let at = (head * T + row) * D + col;
    if PACKED {
        return k[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(k[(at + i) / 8u], at + i);
    }
    return eight_from(all);
}

// The e-th eight of a tile of values that begins with this one. Zeros from row `end` on: no weight makes a number of what may lie there.
fn value_eight(head: u32, first: u32, end: u32, e: u32) -> Eight {
    let row = first + e / (WIDTH / 8u);
    let col = e % (WIDTH / 8u) * 8u;
    // Threads may be more than the last eights.
    if e >= KEYS * (WIDTH / 8u) || ((!WHOLE || OWN_LENGTHS) && row >= end) || (!WHOLE && col >= D) {
        return Eight();
    }
    let at = (head * T + row) * D + col;
    if PACKED {
        return v[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(v[(at + i) / 8u], at + i);
    }
    return eight_from(all);
}

// Write columns col .. col + 7 of a row of the output; col is a multiple of eight.
fn put_out(head: u32, row: u32, col: u32, low: vec4<f32>, high: vec4<f32>) {
    if !WHOLE && (row >= S || col >= D) {
        return;
    }
    let at = (head * S + row) * D + col;
#if PACKED
    out[at / 8u] = eight(low, high);
#else
    let all = array<f32, 8>(low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
    for (var i = 0u; i < min(D - col, 8u); i++) { out[at + i] = f16(all[i]); }
#endif
}
