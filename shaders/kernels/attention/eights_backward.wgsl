// What the backward pass on matrix units reads and writes, as rows of 16-bit floats, eight elements at a time: own and other rows and values
// as in flash_backward.wgsl. PACKED: rows are whole eights. WHOLE: besides, all blocks and tiles are whole, and nothing asks whether an
// element is there.

#import lib/eights

@group(0) @binding(0) var<storage, read> own: array<Eight>;
@group(0) @binding(1) var<storage, read> own_value: array<Eight>;
@group(0) @binding(2) var<storage, read> other: array<Eight>;
@group(0) @binding(3) var<storage, read> other_value: array<Eight>;
@group(0) @binding(4) var<storage, read> lse: array<f32>;
@group(0) @binding(5) var<storage, read> delta: array<f32>;
#if PACKED
@group(0) @binding(6) var<storage, read_write> gradient: array<Eight>;
#if OF_KEYS
@group(0) @binding(7) var<storage, read_write> value_gradient: array<Eight>;
#endif
#else
@group(0) @binding(6) var<storage, read_write> gradient: array<f16>;
#if OF_KEYS
@group(0) @binding(7) var<storage, read_write> value_gradient: array<f16>;
#endif
#endif

const OWN_LENGTH: u32 = select(S, T, OF_KEYS);
const OTHER_LENGTH: u32 = select(T, S, OF_KEYS);

// Whether rows end before their last block or tile does.
const BOUNDED: bool = !WHOLE || OWN_LENGTHS;

// Columns col .. col + 7 of a row, zeros outside and from row `end` on: no weight makes a number of what may lie beyond a length. col is a
// multiple of eight.
fn own_eight(head: u32, row: u32, end: u32, col: u32) -> Eight {
    if (BOUNDED && row >= end) || (!WHOLE && col >= D) {
        return Eight();
    }
    let at = (head * OWN_LENGTH + row) * D + col;
    if PACKED {
        return own[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(own[(at + i) / 8u], at + i);
    }
    return eight_from(all);
}

fn own_value_eight(head: u32, row: u32, end: u32, col: u32) -> Eight {
    if (BOUNDED && row >= end) || (!WHOLE && col >= D) {
        return Eight();
    }
    let at = (head * OWN_LENGTH + row) * D + col;
    if PACKED {
        return own_value[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(own_value[(at + i) / 8u], at + i);
    }
    return eight_from(all);
}

fn other_eight(head: u32, row: u32, end: u32, col: u32) -> Eight {
    if (BOUNDED && row >= end) || (!WHOLE && col >= D) {
        return Eight();
    }
    let at = (head * OTHER_LENGTH + row) * D + col;
    if PACKED {
        return other[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(other[(at + i) / 8u], at + i);
    }
    return eight_from(all);
}

fn other_value_eight(head: u32, row: u32, end: u32, col: u32) -> Eight {
    if (BOUNDED && row >= end) || (!WHOLE && col >= D) {
        return Eight();
    }
    let at = (head * OTHER_LENGTH + row) * D + col;
    if PACKED {
        return other_value[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(D - col, 8u); i++) {
        all[i] = float_in(other_value[(at + i) / 8u], at + i);
    }
    return eight_from(all);
}

// The e-th eight of a tile that begins with this row; threads may be more than the last eights.
fn other_tile_eight(head: u32, first: u32, end: u32, e: u32) -> Eight {
    if e >= TILE * EIGHTS {
        return Eight();
    }
    return other_eight(head, first + e / EIGHTS, end, e % EIGHTS * 8u);
}

fn other_value_tile_eight(head: u32, first: u32, end: u32, e: u32) -> Eight {
    if e >= TILE * EIGHTS {
        return Eight();
    }
    return other_value_eight(head, first + e / EIGHTS, end, e % EIGHTS * 8u);
}

// Write columns col .. col + 7 of an own row's gradients; col is a multiple of eight.
fn put_gradient(head: u32, row: u32, col: u32, low: vec4<f32>, high: vec4<f32>) {
    if !WHOLE && (row >= OWN_LENGTH || col >= D) {
        return;
    }
    let at = (head * OWN_LENGTH + row) * D + col;
#if PACKED
    gradient[at / 8u] = eight(low, high);
#else
    let all = array<f32, 8>(low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
    for (var i = 0u; i < min(D - col, 8u); i++) { gradient[at + i] = f16(all[i]); }
#endif
}

#if OF_KEYS
fn put_value_gradient(head: u32, row: u32, col: u32, low: vec4<f32>, high: vec4<f32>) {
    if !WHOLE && (row >= OWN_LENGTH || col >= D) {
        return;
    }
    let at = (head * OWN_LENGTH + row) * D + col;
#if PACKED
    value_gradient[at / 8u] = eight(low, high);
#else
    let all = array<f32, 8>(low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
    for (var i = 0u; i < min(D - col, 8u); i++) { value_gradient[at + i] = f16(all[i]); }
#endif
}
#endif
