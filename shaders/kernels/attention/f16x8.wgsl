// Bindings of attention in 16-bit floats, eight elements at a time. PACKED: rows are multiples of eight. WHOLE: besides, all
// tiles are whole, and there are no bounds checks.

#import lib/f16x8

@group(0) @binding(0) var<storage, read> q: array<F16x8>;
@group(0) @binding(1) var<storage, read> k: array<F16x8>;
@group(0) @binding(2) var<storage, read> v: array<F16x8>;
#if PACKED
@group(0) @binding(3) var<storage, read_write> out: array<F16x8>;
#else
@group(0) @binding(3) var<storage, read_write> out: array<f16>;
#endif

// Columns col .. col + 7 of a query, zeros outside; col is a multiple of eight.
fn f16x8_of_q(head: u32, row: u32, col: u32) -> F16x8 {
    if !WHOLE && (row >= S || col >= D) {
        return F16x8();
    }
    let at = (head * S + row) * D + col;
    if PACKED {
        return q[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(q[(at + i) / 8u], at + i);
    }
    return f16x8_from(all);
}

// Vector e of the tile of keys that begins at row `first`.
fn f16x8_of_k(head: u32, first: u32, e: u32) -> F16x8 {
    let row = first + e / (WIDTH / 8u);
    let col = e % (WIDTH / 8u) * 8u;
    // There may be more threads than vectors.
    if e >= KEYS * (WIDTH / 8u) || (!WHOLE && (row >= T || col >= D)) {
        return F16x8();
    }
    let at = (head * T + row) * D + col;
    if PACKED {
        return k[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(k[(at + i) / 8u], at + i);
    }
    return f16x8_from(all);
}

// Vector e of the tile of values that begins at row `first`. Zeros from row `end` on, where memory may hold NaN.
fn f16x8_of_v(head: u32, first: u32, end: u32, e: u32) -> F16x8 {
    let row = first + e / (WIDTH / 8u);
    let col = e % (WIDTH / 8u) * 8u;
    // There may be more threads than vectors.
    if e >= KEYS * (WIDTH / 8u) || ((!WHOLE || OWN_LENGTHS) && row >= end) || (!WHOLE && col >= D) {
        return F16x8();
    }
    let at = (head * T + row) * D + col;
    if PACKED {
        return v[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(v[(at + i) / 8u], at + i);
    }
    return f16x8_from(all);
}

// Stores columns col .. col + 7 of a row of the output; col is a multiple of eight.
fn store_out(head: u32, row: u32, col: u32, low: vec4<f32>, high: vec4<f32>) {
    if !WHOLE && (row >= S || col >= D) {
        return;
    }
    let at = (head * S + row) * D + col;
#if PACKED
    out[at / 8u] = f16x8(low, high);
#else
    let all = array<f32, 8>(low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
    for (var i = 0u; i < min(D - col, 8u); i++) { out[at + i] = f16(all[i]); }
#endif
}
