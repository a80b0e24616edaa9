enable wgpu_cooperative_matrix;
// Product of int8 matrices on matrix units: against `dot4`, a subgroup multiplies matrices of 16×32 and 32×16 bytes as a whole. The
// definition is in core/src/suite/workloads/matmul_i8.rs. naga has no matrices of bytes: shaders/src/matrix.rs spells these for Chromium.
//
// Eight subgroups of 32 compute a tile of 128 × 256, each 64 rows of 64 columns: four by four squares. Tiles of A and B are staged by
// vectors of four words, in rows padded by one, and the next ones are on their way in registers meanwhile. A row of B is a column of the
// right factor.
//
// Sums, and what is on its way, are named one by one, since arrays could not be kept in registers everywhere. The T in the names of loads
// and stores means rows that lie one after the other. Subgroups are counted off from the threads, because what browsers can prove of that
// they need not check. Loops have the one form that they can prove to end.

#import lib/product_order
#import matmul_i8/fours

#if FOURS
@group(0) @binding(4) var<storage, read_write> c: array<vec4<elem>>;
#else
@group(0) @binding(4) var<storage, read_write> c: array<elem>;
#endif

// Vectors from one staged row to the next, and from one row of a strip to the next: one pads each, so that neighbours start in different
// memory banks.
const ROW: u32 = PIECES + 1u;
const STRIP: u32 = 9u;
const STEPS: u32 = (WORDS + 4u * PIECES - 1u) / (4u * PIECES);

var<workgroup> a_tile: array<vec4<u32>, ROWS * ROW>;
var<workgroup> b_tile: array<vec4<u32>, COLUMNS * ROW>;
// One strip of two squares for each subgroup: results pass through it to be scaled, and clipped at the edges of C.
var<workgroup> strips: array<vec4<i32>, 8u * 16u * STRIP>;

// Write columns col .. col + 3 of a row of C; col is a multiple of four.
fn put(row: u32, col: u32, sum: vec4<i32>) {
    if !WHOLE && (row >= M || col >= N) {
        return;
    }
    let x = a_scale[row] * vec4<f32>(sum);
    let at = row * N + col;
#if FOURS
    let by = vec4<f32>(b_scale[col], b_scale[col + 1u], b_scale[col + 2u], b_scale[col + 3u]);
    c[at / 4u] = vec4<elem>(x * by);
#else
    c[at] = elem(x.x * b_scale[col]);
    if col + 1u < N { c[at + 1u] = elem(x.y * b_scale[col + 1u]); }
    if col + 2u < N { c[at + 2u] = elem(x.z * b_scale[col + 2u]); }
    if col + 3u < N { c[at + 3u] = elem(x.w * b_scale[col + 3u]); }
#endif
}

// Write the subgroup's strip to rows and columns row .. row + 15 and col .. col + 31 of C.
fn write_strip(row: u32, col: u32, strip: u32, lane: u32) {
    workgroupBarrier();
    for (var i = 0u; i < 4u; i++) {
        let down = i * 4u + lane / 8u;
        put(row + down, col + lane % 8u * 4u, strips[strip + down * STRIP + lane % 8u]);
    }
    workgroupBarrier();
}

@compute @workgroup_size(256)
fn matmul_i8_coopmat(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let across = (N + COLUMNS - 1u) / COLUMNS;
    let down = (M + ROWS - 1u) / ROWS;
    let index = group.y * groups.x + group.x;
    if index >= across * down {
        return;
    }
    let first = tile_at(index, across, down) * vec2<u32>(COLUMNS, ROWS);
    let subgroup = thread / 32u;
    let lane = thread % 32u;
    let row = subgroup / 4u * 64u;
    let col = subgroup % 4u * 64u;
    // The row and the vector of it that the thread stages; its others lie farther down.
    let down_here = thread / PIECES;
    let along = thread % PIECES;
    let to = down_here * ROW + along;
    var c00 = coop_mat16x16<i32, C>();
    var c01 = coop_mat16x16<i32, C>();
    var c02 = coop_mat16x16<i32, C>();
    var c03 = coop_mat16x16<i32, C>();
    var c10 = coop_mat16x16<i32, C>();
    var c11 = coop_mat16x16<i32, C>();
    var c12 = coop_mat16x16<i32, C>();
    var c13 = coop_mat16x16<i32, C>();
    var c20 = coop_mat16x16<i32, C>();
    var c21 = coop_mat16x16<i32, C>();
    var c22 = coop_mat16x16<i32, C>();
    var c23 = coop_mat16x16<i32, C>();
    var c30 = coop_mat16x16<i32, C>();
    var c31 = coop_mat16x16<i32, C>();
    var c32 = coop_mat16x16<i32, C>();
    var c33 = coop_mat16x16<i32, C>();
    var next_a0 = four_of_a(first.y + down_here + 0u, along * 4u);
    var next_a1 = four_of_a(first.y + down_here + 64u, along * 4u);
    var next_b0 = four_of_b(first.x + down_here + 0u, along * 4u);
    var next_b1 = four_of_b(first.x + down_here + 64u, along * 4u);
    var next_b2 = four_of_b(first.x + down_here + 128u, along * 4u);
    var next_b3 = four_of_b(first.x + down_here + 192u, along * 4u);

    for (var t = 0u; t < STEPS; t++) {
        workgroupBarrier();
        a_tile[to + 0u * ROW] = next_a0;
        a_tile[to + 64u * ROW] = next_a1;
        b_tile[to + 0u * ROW] = next_b0;
        b_tile[to + 64u * ROW] = next_b1;
        b_tile[to + 128u * ROW] = next_b2;
        b_tile[to + 192u * ROW] = next_b3;
        workgroupBarrier();
        if t + 1u < STEPS {
            let at = ((t + 1u) * PIECES + along) * 4u;
            next_a0 = four_of_a(first.y + down_here + 0u, at);
            next_a1 = four_of_a(first.y + down_here + 64u, at);
            next_b0 = four_of_b(first.x + down_here + 0u, at);
            next_b1 = four_of_b(first.x + down_here + 64u, at);
            next_b2 = four_of_b(first.x + down_here + 128u, at);
            next_b3 = four_of_b(first.x + down_here + 192u, at);
        }
        let a00 = coopLoadT<coop_mat32x16<i8, A>>(&a_tile[(row + 0u) * ROW + 0u], ROW);
        let a01 = coopLoadT<coop_mat32x16<i8, A>>(&a_tile[(row + 16u) * ROW + 0u], ROW);
        let a02 = coopLoadT<coop_mat32x16<i8, A>>(&a_tile[(row + 32u) * ROW + 0u], ROW);
        let a03 = coopLoadT<coop_mat32x16<i8, A>>(&a_tile[(row + 48u) * ROW + 0u], ROW);
        let b00 = coopLoad<coop_mat16x32<i8, B>>(&b_tile[(col + 0u) * ROW + 0u], ROW);
        let b01 = coopLoad<coop_mat16x32<i8, B>>(&b_tile[(col + 16u) * ROW + 0u], ROW);
        let b02 = coopLoad<coop_mat16x32<i8, B>>(&b_tile[(col + 32u) * ROW + 0u], ROW);
        let b03 = coopLoad<coop_mat16x32<i8, B>>(&b_tile[(col + 48u) * ROW + 0u], ROW);
        c00 = coopMultiplyAdd(a00, b00, c00);
        c01 = coopMultiplyAdd(a00, b01, c01);
        c02 = coopMultiplyAdd(a00, b02, c02);
        c03 = coopMultiplyAdd(a00, b03, c03);
        c10 = coopMultiplyAdd(a01, b00, c10);
        c11 = coopMultiplyAdd(a01, b01, c11);
        c12 = coopMultiplyAdd(a01, b02, c12);
        c13 = coopMultiplyAdd(a01, b03, c13);
        c20 = coopMultiplyAdd(a02, b00, c20);
        c21 = coopMultiplyAdd(a02, b01, c21);
        c22 = coopMultiplyAdd(a02, b02, c22);
        c23 = coopMultiplyAdd(a02, b03, c23);
        c30 = coopMultiplyAdd(a03, b00, c30);
        c31 = coopMultiplyAdd(a03, b01, c31);
        c32 = coopMultiplyAdd(a03, b02, c32);
        c33 = coopMultiplyAdd(a03, b03, c33);
        let a10 = coopLoadT<coop_mat32x16<i8, A>>(&a_tile[(row + 0u) * ROW + 2u], ROW);
        let a11 = coopLoadT<coop_mat32x16<i8, A>>(&a_tile[(row + 16u) * ROW + 2u], ROW);
        let a12 = coopLoadT<coop_mat32x16<i8, A>>(&a_tile[(row + 32u) * ROW + 2u], ROW);
        let a13 = coopLoadT<coop_mat32x16<i8, A>>(&a_tile[(row + 48u) * ROW + 2u], ROW);
        let b10 = coopLoad<coop_mat16x32<i8, B>>(&b_tile[(col + 0u) * ROW + 2u], ROW);
        let b11 = coopLoad<coop_mat16x32<i8, B>>(&b_tile[(col + 16u) * ROW + 2u], ROW);
        let b12 = coopLoad<coop_mat16x32<i8, B>>(&b_tile[(col + 32u) * ROW + 2u], ROW);
        let b13 = coopLoad<coop_mat16x32<i8, B>>(&b_tile[(col + 48u) * ROW + 2u], ROW);
        c00 = coopMultiplyAdd(a10, b10, c00);
        c01 = coopMultiplyAdd(a10, b11, c01);
        c02 = coopMultiplyAdd(a10, b12, c02);
        c03 = coopMultiplyAdd(a10, b13, c03);
        c10 = coopMultiplyAdd(a11, b10, c10);
        c11 = coopMultiplyAdd(a11, b11, c11);
        c12 = coopMultiplyAdd(a11, b12, c12);
        c13 = coopMultiplyAdd(a11, b13, c13);
        c20 = coopMultiplyAdd(a12, b10, c20);
        c21 = coopMultiplyAdd(a12, b11, c21);
        c22 = coopMultiplyAdd(a12, b12, c22);
        c23 = coopMultiplyAdd(a12, b13, c23);
        c30 = coopMultiplyAdd(a13, b10, c30);
        c31 = coopMultiplyAdd(a13, b11, c31);
        c32 = coopMultiplyAdd(a13, b12, c32);
        c33 = coopMultiplyAdd(a13, b13, c33);
    }

    let strip = subgroup * 16u * STRIP;
    coopStoreT(c00, &strips[strip], STRIP);
    coopStoreT(c01, &strips[strip + 4u], STRIP);
    write_strip(first.y + row + 0u, first.x + col + 0u, strip, lane);
    coopStoreT(c02, &strips[strip], STRIP);
    coopStoreT(c03, &strips[strip + 4u], STRIP);
    write_strip(first.y + row + 0u, first.x + col + 32u, strip, lane);
    coopStoreT(c10, &strips[strip], STRIP);
    coopStoreT(c11, &strips[strip + 4u], STRIP);
    write_strip(first.y + row + 16u, first.x + col + 0u, strip, lane);
    coopStoreT(c12, &strips[strip], STRIP);
    coopStoreT(c13, &strips[strip + 4u], STRIP);
    write_strip(first.y + row + 16u, first.x + col + 32u, strip, lane);
    coopStoreT(c20, &strips[strip], STRIP);
    coopStoreT(c21, &strips[strip + 4u], STRIP);
    write_strip(first.y + row + 32u, first.x + col + 0u, strip, lane);
    coopStoreT(c22, &strips[strip], STRIP);
    coopStoreT(c23, &strips[strip + 4u], STRIP);
    write_strip(first.y + row + 32u, first.x + col + 32u, strip, lane);
    coopStoreT(c30, &strips[strip], STRIP);
    coopStoreT(c31, &strips[strip + 4u], STRIP);
    write_strip(first.y + row + 48u, first.x + col + 0u, strip, lane);
    coopStoreT(c32, &strips[strip], STRIP);
    coopStoreT(c33, &strips[strip + 4u], STRIP);
    write_strip(first.y + row + 48u, first.x + col + 32u, strip, lane);
}
