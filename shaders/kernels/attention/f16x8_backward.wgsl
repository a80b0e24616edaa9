// Loads and stores of the backward pass on matrix units, as rows of 16-bit floats, eight elements at a time. Own and other rows
// and values are those of flash_backward.wgsl. PACKED: rows are multiples of eight. WHOLE: besides, all blocks and tiles are
// whole, and there are no bounds checks.

#import lib/f16x8

@group(0) @binding(0) var<storage, read> own: array<F16x8>;
@group(0) @binding(1) var<storage, read> own_value: array<F16x8>;
@group(0) @binding(2) var<storage, read> other: array<F16x8>;
@group(0) @binding(3) var<storage, read> other_value: array<F16x8>;
@group(0) @binding(4) var<storage, read> lse: array<f32>;
@group(0) @binding(5) var<storage, read> delta: array<f32>;
#if PACKED
@group(0) @binding(6) var<storage, read_write> gradient: array<F16x8>;
#if OF_KEYS
@group(0) @binding(7) var<storage, read_write> value_gradient: array<F16x8>;
#endif
#else
@group(0) @binding(6) var<storage, read_write> gradient: array<f16>;
#if OF_KEYS
@group(0) @binding(7) var<storage, read_write> value_gradient: array<f16>;
#endif
#endif

const OWN_LENGTH: u32 = select(S, T, OF_KEYS);
const OTHER_LENGTH: u32 = select(T, S, OF_KEYS);

// Whether rows may end before their last block or tile.
const BOUNDED: bool = !WHOLE || OWN_LENGTHS;

// Columns col .. col + 7 of a row, zeros outside and from row `end` on, where memory may hold NaN. col is a multiple of eight.
fn own_f16x8(head: u32, row: u32, end: u32, col: u32) -> F16x8 {
    if (BOUNDED && row >= end) || (!WHOLE && col >= D) {
        return F16x8();
    }
    let at = (head * OWN_LENGTH + row) * D + col;
    if PACKED {
        return own[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(own[(at + i) / 8u], at + i);
    }
    return f16x8_from(all);
}

fn own_value_f16x8(head: u32, row: u32, end: u32, col: u32) -> F16x8 {
    if (BOUNDED && row >= end) || (!WHOLE && col >= D) {
        return F16x8();
    }
    let at = (head * OWN_LENGTH + row) * D + col;
    if PACKED {
        return own_value[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(own_value[(at + i) / 8u], at + i);
    }
    return f16x8_from(all);
}

fn other_f16x8(head: u32, row: u32, end: u32, col: u32) -> F16x8 {
    if (BOUNDED && row >= end) || (!WHOLE && col >= D) {
        return F16x8();
    }
    let at = (head * OTHER_LENGTH + row) * D + col;
    if PACKED {
        return other[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(other[(at + i) / 8u], at + i);
    }
    return f16x8_from(all);
}

fn other_value_f16x8(head: u32, row: u32, end: u32, col: u32) -> F16x8 {
    if (BOUNDED && row >= end) || (!WHOLE && col >= D) {
        return F16x8();
    }
    let at = (head * OTHER_LENGTH + row) * D + col;
    if PACKED {
        return other_value[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(other_value[(at + i) / 8u], at + i);
    }
    return f16x8_from(all);
}

// Vector e of the tile that begins at row `first`. There may be more threads than vectors.
fn other_tile_f16x8(head: u32, first: u32, end: u32, e: u32) -> F16x8 {
    if e >= TILE * ROW_VEC8 {
        return F16x8();
    }
    return other_f16x8(head, first + e / ROW_VEC8, end, e % ROW_VEC8 * 8u);
}

fn other_value_tile_f16x8(head: u32, first: u32, end: u32, e: u32) -> F16x8 {
    if e >= TILE * ROW_VEC8 {
        return F16x8();
    }
    return other_value_f16x8(head, first + e / ROW_VEC8, end, e % ROW_VEC8 * 8u);
}

// Stores columns col .. col + 7 of an own row's gradients; col is a multiple of eight.
fn store_gradient(head: u32, row: u32, col: u32, low: vec4<f32>, high: vec4<f32>) {
    if !WHOLE && (row >= OWN_LENGTH || col >= D) {
        return;
    }
    let at = (head * OWN_LENGTH + row) * D + col;
#if PACKED
    gradient[at / 8u] = f16x8(low, high);
#else
    let all = array<f32, 8>(low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
    for (var i = 0u; i < min(D - col, 8u); i++) { gradient[at + i] = f16(all[i]); }
#endif
}

#if OF_KEYS
fn store_value_gradient(head: u32, row: u32, col: u32, low: vec4<f32>, high: vec4<f32>) {
    if !WHOLE && (row >= OWN_LENGTH || col >= D) {
        return;
    }
    let at = (head * OWN_LENGTH + row) * D + col;
#if PACKED
    value_gradient[at / 8u] = f16x8(low, high);
#else
    let all = array<f32, 8>(low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
    for (var i = 0u; i < min(D - col, 8u); i++) { value_gradient[at + i] = f16(all[i]); }
#endif
}
#endif
