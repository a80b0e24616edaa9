// GEMMs of 16-bit floats in the layouts of `lib/product`, eight elements at a time. PACKED: stored rows of A, B and C are
// multiples of eight. WHOLE: besides, all tiles are whole, and there are no bounds checks.

#import lib/f16x8

@group(0) @binding(0) var<storage, read> a: array<F16x8>;
@group(0) @binding(1) var<storage, read> b: array<F16x8>;
#if PACKED
@group(0) @binding(2) var<storage, read_write> c: array<F16x8>;
#else
@group(0) @binding(2) var<storage, read_write> c: array<f16>;
#endif

// Elements col .. col + 7 of a stored row of A, zeros outside; col is a multiple of eight.
fn f16x8_of_a(batch: u32, row: u32, col: u32) -> F16x8 {
    if !WHOLE && (row >= A_HEIGHT || col >= A_WIDTH) {
        return F16x8();
    }
    let at = (batch * A_HEIGHT + row) * A_WIDTH + col;
    if PACKED {
        return a[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(A_WIDTH - col, 8u); i++) {
        all[i] = float_in(a[(at + i) / 8u], at + i);
    }
    return f16x8_from(all);
}

// Elements col .. col + 7 of a stored row of B, zeros outside; col is a multiple of eight.
fn f16x8_of_b(batch: u32, row: u32, col: u32) -> F16x8 {
    if !WHOLE && (row >= B_HEIGHT || col >= B_WIDTH) {
        return F16x8();
    }
    let at = (batch * B_HEIGHT + row) * B_WIDTH + col;
    if PACKED {
        return b[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(B_WIDTH - col, 8u); i++) {
        all[i] = float_in(b[(at + i) / 8u], at + i);
    }
    return f16x8_from(all);
}

// Stores columns col .. col + 7 of a row of C after the importing kernel's `epilogue(at, column, there, sum)`; col is a multiple
// of eight.
fn store_f16x8(batch: u32, row: u32, col: u32, low: vec4<f32>, high: vec4<f32>) {
    if !WHOLE && (row >= M || col >= N) {
        return;
    }
    let at = (batch * M + row) * N + col;
#if PACKED
    c[at / 8u] = f16x8(epilogue(at, col, 4u, low), epilogue(at + 4u, col + 4u, 4u, high));
#else
    store_vec4(at, col, low);
    if col + 4u < N { store_vec4(at + 4u, col + 4u, high); }
#endif
}
#if !PACKED
fn store_vec4(at: u32, col: u32, sum: vec4<f32>) {
    let x = epilogue(at, col, N - col, sum);
    c[at] = f16(x.x);
    if col + 1u < N { c[at + 1u] = f16(x.y); }
    if col + 2u < N { c[at + 2u] = f16(x.z); }
    if col + 3u < N { c[at + 3u] = f16(x.w); }
}
#endif
