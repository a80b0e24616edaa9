// Matrix product on matrix units: against `product_tiled`, a subgroup multiplies 16×16 matrices of f16 as a whole and sums in f32.
// Cooperative matrices are an extension of native wgpu; shaders/src/matrix.rs spells them for browsers. What becomes of sums is said by
// `finished` of the text that imports this.
//
// Eight subgroups of 32 compute a tile of 128 × 256, each 64 rows of 64 columns: four by four squares of 16 × 16. Where such tiles would
// be too few for the device, tiles are 128 × 128, and each has 32 rows (!TALL). Where they would leave most of a device without work in its
// last turn, twelve subgroups compute a tile of 192 × 192, each 64 rows of 48 columns (THREE squares across): on an H200 those have 0.8 of
// the rate, and 4096 × 1152 × 4304 takes one turn and not two, 179 µs and not 254. What each step brought, by TFLOP/s there at 4096³,
// natively and in Chromium: matrices straight from device memory 65 in Chromium; tiles staged in workgroup memory by vectors of four 126; by
// eights, the next ones on their way meanwhile, in rows padded by one, by four subgroups to a tile of 128 × 128, 176 and 196; natively,
// eights written to workgroup memory as they come, 198; eight subgroups to twice as wide a tile 290 and 295; matrices of the next sixteen
// columns of A loaded while those before are multiplied, across barriers, 318 and 324. Two tiles in turns, so that a step has one barrier,
// bring nothing; nor does leaving out the checks of browsers. Results leave by eights. (By a bench of whole tiles; `run` had 293 and 308.)
//
// Sums, and what is on its way, are named one by one, since arrays could not be kept in registers everywhere. The T in the names of loads
// and stores means rows that lie one after the other. Subgroups are counted off from the threads, because what browsers can prove of that
// they need not check. Loops have the one form that they can prove to end.

#import lib/product_order
#import lib/product_wide

// Rows and columns of a subgroup.
#if TALL
const ROWS: u32 = 64u;
#else
const ROWS: u32 = 32u;
#endif
#if THREE
const COLUMNS: u32 = 48u;
#else
const COLUMNS: u32 = 64u;
#endif
// Eights in a row of a tile as it is stored, and rows that all threads stage at a time.
#if A_BY_COLUMN
const A_EIGHTS: u32 = DOWN / 8u;
#else
const A_EIGHTS: u32 = DEPTH / 8u;
#endif
#if B_BY_COLUMN
const B_EIGHTS: u32 = DEPTH / 8u;
#else
const B_EIGHTS: u32 = ACROSS / 8u;
#endif
const A_ROWS: u32 = THREADS / A_EIGHTS;
const B_ROWS: u32 = THREADS / B_EIGHTS;
// Eights from one staged row to the next: rows padded so that neighbours start in different memory banks.
const A_ROW: u32 = A_EIGHTS + 1u;
const B_ROW: u32 = B_EIGHTS + 1u;
#if A_BY_COLUMN
const A_TILE: u32 = DEPTH * A_ROW;
#else
const A_TILE: u32 = DOWN * A_ROW;
#endif
#if B_BY_COLUMN
const B_TILE: u32 = ACROSS * B_ROW;
#else
const B_TILE: u32 = DEPTH * B_ROW;
#endif
const STEPS: u32 = (K + DEPTH - 1u) / DEPTH;
// Squares in a strip, and vectors from one row of it to the next.
#if THREE
const WIDTH: u32 = 1u;
#else
const WIDTH: u32 = 2u;
#endif
const STRIP: u32 = 4u * WIDTH + 1u;

var<workgroup> a_tile: array<Piece, A_TILE * PIECES>;
var<workgroup> b_tile: array<Piece, B_TILE * PIECES>;
// A strip of one square or two for each subgroup: results pass through it to be rounded, and clipped at the edges of C.
var<workgroup> strips: array<vec4<f32>, THREADS / 32u * 16u * STRIP>;

fn put_a(at: u32, x: Eight) {
#if IN_A_BROWSER
    a_tile[at] = x;
#else
    a_tile[2u * at] = low_of(x);
    a_tile[2u * at + 1u] = high_of(x);
#endif
}

fn put_b(at: u32, x: Eight) {
#if IN_A_BROWSER
    b_tile[at] = x;
#else
    b_tile[2u * at] = low_of(x);
    b_tile[2u * at + 1u] = high_of(x);
#endif
}

// Write the subgroup's strip to C, from that row and column on.
fn write_strip(batch: u32, row: u32, col: u32, strip: u32, lane: u32) {
    workgroupBarrier();
    for (var i = 0u; i < WIDTH; i++) {
        let down = i * 8u + lane / (2u * WIDTH);
        let along = lane % (2u * WIDTH);
        let from_here = strip + down * STRIP + along * 2u;
        put_eight(batch, row + down, col + along * 8u, strips[from_here], strips[from_here + 1u]);
    }
    workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn product_coopmat(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let across = (N + ACROSS - 1u) / ACROSS;
    let down = (M + DOWN - 1u) / DOWN;
    // Not by flat_group: the validator takes a call's result for one that may differ within a workgroup.
    let index = group.y * groups.x + group.x;
    if index >= BATCH * across * down {
        return;
    }
    let batch = index / (across * down);
    let first = tile_at(index % (across * down), across, down) * vec2<u32>(ACROSS, DOWN);
    let subgroup = thread / 32u;
    let lane = thread % 32u;
    let row = subgroup / (ACROSS / COLUMNS) * ROWS;
    let col = subgroup % (ACROSS / COLUMNS) * COLUMNS;
    // Where the thread's first eights of both tiles are staged, and where they come from; its others lie farther down.
    let ay = thread / A_EIGHTS;
    let ax = thread % A_EIGHTS;
    let by = thread / B_EIGHTS;
    let bx = thread % B_EIGHTS;
#if A_BY_COLUMN
    let a_from = vec2<u32>(first.y + ax * 8u, ay);
#else
    let a_from = vec2<u32>(ax * 8u, first.y + ay);
#endif
#if B_BY_COLUMN
    let b_from = vec2<u32>(bx * 8u, first.x + by);
#else
    let b_from = vec2<u32>(first.x + bx * 8u, by);
#endif
    var c00 = coop_mat16x16<f32, C>();
    var c01 = coop_mat16x16<f32, C>();
    var c02 = coop_mat16x16<f32, C>();
#if !THREE
    var c03 = coop_mat16x16<f32, C>();
#endif
    var c10 = coop_mat16x16<f32, C>();
    var c11 = coop_mat16x16<f32, C>();
    var c12 = coop_mat16x16<f32, C>();
#if !THREE
    var c13 = coop_mat16x16<f32, C>();
#endif
#if TALL
    var c20 = coop_mat16x16<f32, C>();
    var c21 = coop_mat16x16<f32, C>();
    var c22 = coop_mat16x16<f32, C>();
#if !THREE
    var c23 = coop_mat16x16<f32, C>();
#endif
    var c30 = coop_mat16x16<f32, C>();
    var c31 = coop_mat16x16<f32, C>();
    var c32 = coop_mat16x16<f32, C>();
#if !THREE
    var c33 = coop_mat16x16<f32, C>();
#endif
#endif
    var next_a0 = eight_of_a(batch, a_from.y + 0u * A_ROWS, a_from.x);
    var next_a1 = eight_of_a(batch, a_from.y + 1u * A_ROWS, a_from.x);
    var next_b0 = eight_of_b(batch, b_from.y + 0u * B_ROWS, b_from.x);
    var next_b1 = eight_of_b(batch, b_from.y + 1u * B_ROWS, b_from.x);
#if WIDE
    var next_b2 = eight_of_b(batch, b_from.y + 2u * B_ROWS, b_from.x);
    var next_b3 = eight_of_b(batch, b_from.y + 3u * B_ROWS, b_from.x);
#endif

    put_a((ay + 0u * A_ROWS) * A_ROW + ax, next_a0);
    put_a((ay + 1u * A_ROWS) * A_ROW + ax, next_a1);
    put_b((by + 0u * B_ROWS) * B_ROW + bx, next_b0);
    put_b((by + 1u * B_ROWS) * B_ROW + bx, next_b1);
#if WIDE
    put_b((by + 2u * B_ROWS) * B_ROW + bx, next_b2);
    put_b((by + 3u * B_ROWS) * B_ROW + bx, next_b3);
#endif
    workgroupBarrier();
#if A_BY_COLUMN
    var a0 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(0u * A_ROW + row / 8u + 0u) * PIECES], A_ROW * PIECES);
    var a1 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(0u * A_ROW + row / 8u + 2u) * PIECES], A_ROW * PIECES);
#if TALL
    var a2 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(0u * A_ROW + row / 8u + 4u) * PIECES], A_ROW * PIECES);
    var a3 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(0u * A_ROW + row / 8u + 6u) * PIECES], A_ROW * PIECES);
#endif
#else
    var a0 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 0u) * A_ROW + 0u) * PIECES], A_ROW * PIECES);
    var a1 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 16u) * A_ROW + 0u) * PIECES], A_ROW * PIECES);
#if TALL
    var a2 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 32u) * A_ROW + 0u) * PIECES], A_ROW * PIECES);
    var a3 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 48u) * A_ROW + 0u) * PIECES], A_ROW * PIECES);
#endif
#endif
#if B_BY_COLUMN
    var b0 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 0u) * B_ROW + 0u) * PIECES], B_ROW * PIECES);
    var b1 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 16u) * B_ROW + 0u) * PIECES], B_ROW * PIECES);
    var b2 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 32u) * B_ROW + 0u) * PIECES], B_ROW * PIECES);
#if !THREE
    var b3 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 48u) * B_ROW + 0u) * PIECES], B_ROW * PIECES);
#endif
#else
    var b0 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(0u * B_ROW + col / 8u + 0u) * PIECES], B_ROW * PIECES);
    var b1 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(0u * B_ROW + col / 8u + 2u) * PIECES], B_ROW * PIECES);
    var b2 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(0u * B_ROW + col / 8u + 4u) * PIECES], B_ROW * PIECES);
#if !THREE
    var b3 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(0u * B_ROW + col / 8u + 6u) * PIECES], B_ROW * PIECES);
#endif
#endif
    if 1u < STEPS {
        let depth = (1u) * DEPTH;
#if A_BY_COLUMN
        let a_next = a_from + vec2<u32>(0u, depth);
#else
        let a_next = a_from + vec2<u32>(depth, 0u);
#endif
#if B_BY_COLUMN
        let b_next = b_from + vec2<u32>(depth, 0u);
#else
        let b_next = b_from + vec2<u32>(0u, depth);
#endif
        next_a0 = eight_of_a(batch, a_next.y + 0u * A_ROWS, a_next.x);
        next_a1 = eight_of_a(batch, a_next.y + 1u * A_ROWS, a_next.x);
        next_b0 = eight_of_b(batch, b_next.y + 0u * B_ROWS, b_next.x);
        next_b1 = eight_of_b(batch, b_next.y + 1u * B_ROWS, b_next.x);
#if WIDE
        next_b2 = eight_of_b(batch, b_next.y + 2u * B_ROWS, b_next.x);
        next_b3 = eight_of_b(batch, b_next.y + 3u * B_ROWS, b_next.x);
#endif
    }
    for (var t = 0u; t < STEPS; t++) {
#if A_BY_COLUMN
        let f0 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(16u * A_ROW + row / 8u + 0u) * PIECES], A_ROW * PIECES);
        let f1 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(16u * A_ROW + row / 8u + 2u) * PIECES], A_ROW * PIECES);
#if TALL
        let f2 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(16u * A_ROW + row / 8u + 4u) * PIECES], A_ROW * PIECES);
        let f3 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(16u * A_ROW + row / 8u + 6u) * PIECES], A_ROW * PIECES);
#endif
#else
        let f0 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 0u) * A_ROW + 2u) * PIECES], A_ROW * PIECES);
        let f1 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 16u) * A_ROW + 2u) * PIECES], A_ROW * PIECES);
#if TALL
        let f2 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 32u) * A_ROW + 2u) * PIECES], A_ROW * PIECES);
        let f3 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 48u) * A_ROW + 2u) * PIECES], A_ROW * PIECES);
#endif
#endif
#if B_BY_COLUMN
        let g0 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 0u) * B_ROW + 2u) * PIECES], B_ROW * PIECES);
        let g1 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 16u) * B_ROW + 2u) * PIECES], B_ROW * PIECES);
        let g2 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 32u) * B_ROW + 2u) * PIECES], B_ROW * PIECES);
#if !THREE
        let g3 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 48u) * B_ROW + 2u) * PIECES], B_ROW * PIECES);
#endif
#else
        let g0 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(16u * B_ROW + col / 8u + 0u) * PIECES], B_ROW * PIECES);
        let g1 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(16u * B_ROW + col / 8u + 2u) * PIECES], B_ROW * PIECES);
        let g2 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(16u * B_ROW + col / 8u + 4u) * PIECES], B_ROW * PIECES);
#if !THREE
        let g3 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(16u * B_ROW + col / 8u + 6u) * PIECES], B_ROW * PIECES);
#endif
#endif
        c00 = coopMultiplyAdd(a0, b0, c00);
        c01 = coopMultiplyAdd(a0, b1, c01);
        c02 = coopMultiplyAdd(a0, b2, c02);
#if !THREE
        c03 = coopMultiplyAdd(a0, b3, c03);
#endif
        c10 = coopMultiplyAdd(a1, b0, c10);
        c11 = coopMultiplyAdd(a1, b1, c11);
        c12 = coopMultiplyAdd(a1, b2, c12);
#if !THREE
        c13 = coopMultiplyAdd(a1, b3, c13);
#endif
#if TALL
        c20 = coopMultiplyAdd(a2, b0, c20);
        c21 = coopMultiplyAdd(a2, b1, c21);
        c22 = coopMultiplyAdd(a2, b2, c22);
#if !THREE
        c23 = coopMultiplyAdd(a2, b3, c23);
#endif
        c30 = coopMultiplyAdd(a3, b0, c30);
        c31 = coopMultiplyAdd(a3, b1, c31);
        c32 = coopMultiplyAdd(a3, b2, c32);
#if !THREE
        c33 = coopMultiplyAdd(a3, b3, c33);
#endif
#endif
        // The tiles have been loaded by all; the next ones follow, and what is multiplied meanwhile needs no memory.
        workgroupBarrier();
        if t + 1u < STEPS {
            put_a((ay + 0u * A_ROWS) * A_ROW + ax, next_a0);
            put_a((ay + 1u * A_ROWS) * A_ROW + ax, next_a1);
            put_b((by + 0u * B_ROWS) * B_ROW + bx, next_b0);
            put_b((by + 1u * B_ROWS) * B_ROW + bx, next_b1);
#if WIDE
            put_b((by + 2u * B_ROWS) * B_ROW + bx, next_b2);
            put_b((by + 3u * B_ROWS) * B_ROW + bx, next_b3);
#endif
        }
        if t + 2u < STEPS {
            let depth = (t + 2u) * DEPTH;
#if A_BY_COLUMN
            let a_next = a_from + vec2<u32>(0u, depth);
#else
            let a_next = a_from + vec2<u32>(depth, 0u);
#endif
#if B_BY_COLUMN
            let b_next = b_from + vec2<u32>(depth, 0u);
#else
            let b_next = b_from + vec2<u32>(0u, depth);
#endif
            next_a0 = eight_of_a(batch, a_next.y + 0u * A_ROWS, a_next.x);
            next_a1 = eight_of_a(batch, a_next.y + 1u * A_ROWS, a_next.x);
            next_b0 = eight_of_b(batch, b_next.y + 0u * B_ROWS, b_next.x);
            next_b1 = eight_of_b(batch, b_next.y + 1u * B_ROWS, b_next.x);
#if WIDE
            next_b2 = eight_of_b(batch, b_next.y + 2u * B_ROWS, b_next.x);
            next_b3 = eight_of_b(batch, b_next.y + 3u * B_ROWS, b_next.x);
#endif
        }
        c00 = coopMultiplyAdd(f0, g0, c00);
        c01 = coopMultiplyAdd(f0, g1, c01);
        c02 = coopMultiplyAdd(f0, g2, c02);
#if !THREE
        c03 = coopMultiplyAdd(f0, g3, c03);
#endif
#if TALL
        c10 = coopMultiplyAdd(f1, g0, c10);
        c11 = coopMultiplyAdd(f1, g1, c11);
        c12 = coopMultiplyAdd(f1, g2, c12);
#if !THREE
        c13 = coopMultiplyAdd(f1, g3, c13);
#endif
        c20 = coopMultiplyAdd(f2, g0, c20);
        c21 = coopMultiplyAdd(f2, g1, c21);
        c22 = coopMultiplyAdd(f2, g2, c22);
#if !THREE
        c23 = coopMultiplyAdd(f2, g3, c23);
#endif
#endif
        workgroupBarrier();
        // Behind the last step, what lies there still: it is not multiplied any more.
#if A_BY_COLUMN
        a0 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(0u * A_ROW + row / 8u + 0u) * PIECES], A_ROW * PIECES);
        a1 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(0u * A_ROW + row / 8u + 2u) * PIECES], A_ROW * PIECES);
#if TALL
        a2 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(0u * A_ROW + row / 8u + 4u) * PIECES], A_ROW * PIECES);
        a3 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(0u * A_ROW + row / 8u + 6u) * PIECES], A_ROW * PIECES);
#endif
#else
        a0 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 0u) * A_ROW + 0u) * PIECES], A_ROW * PIECES);
        a1 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 16u) * A_ROW + 0u) * PIECES], A_ROW * PIECES);
#if TALL
        a2 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 32u) * A_ROW + 0u) * PIECES], A_ROW * PIECES);
        a3 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 48u) * A_ROW + 0u) * PIECES], A_ROW * PIECES);
#endif
#endif
#if B_BY_COLUMN
        b0 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 0u) * B_ROW + 0u) * PIECES], B_ROW * PIECES);
        b1 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 16u) * B_ROW + 0u) * PIECES], B_ROW * PIECES);
        b2 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 32u) * B_ROW + 0u) * PIECES], B_ROW * PIECES);
#if !THREE
        b3 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 48u) * B_ROW + 0u) * PIECES], B_ROW * PIECES);
#endif
#else
        b0 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(0u * B_ROW + col / 8u + 0u) * PIECES], B_ROW * PIECES);
        b1 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(0u * B_ROW + col / 8u + 2u) * PIECES], B_ROW * PIECES);
        b2 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(0u * B_ROW + col / 8u + 4u) * PIECES], B_ROW * PIECES);
#if !THREE
        b3 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(0u * B_ROW + col / 8u + 6u) * PIECES], B_ROW * PIECES);
#endif
#endif
#if TALL
        c30 = coopMultiplyAdd(f3, g0, c30);
        c31 = coopMultiplyAdd(f3, g1, c31);
        c32 = coopMultiplyAdd(f3, g2, c32);
#if !THREE
        c33 = coopMultiplyAdd(f3, g3, c33);
#endif
#else
        c10 = coopMultiplyAdd(f1, g0, c10);
        c11 = coopMultiplyAdd(f1, g1, c11);
        c12 = coopMultiplyAdd(f1, g2, c12);
#if !THREE
        c13 = coopMultiplyAdd(f1, g3, c13);
#endif
#endif
    }

    let strip = subgroup * 16u * STRIP;
#if THREE
    coopStoreT(c00, &strips[strip], STRIP);
    write_strip(batch, first.y + row + 0u, first.x + col + 0u, strip, lane);
    coopStoreT(c01, &strips[strip], STRIP);
    write_strip(batch, first.y + row + 0u, first.x + col + 16u, strip, lane);
    coopStoreT(c02, &strips[strip], STRIP);
    write_strip(batch, first.y + row + 0u, first.x + col + 32u, strip, lane);
    coopStoreT(c10, &strips[strip], STRIP);
    write_strip(batch, first.y + row + 16u, first.x + col + 0u, strip, lane);
    coopStoreT(c11, &strips[strip], STRIP);
    write_strip(batch, first.y + row + 16u, first.x + col + 16u, strip, lane);
    coopStoreT(c12, &strips[strip], STRIP);
    write_strip(batch, first.y + row + 16u, first.x + col + 32u, strip, lane);
    coopStoreT(c20, &strips[strip], STRIP);
    write_strip(batch, first.y + row + 32u, first.x + col + 0u, strip, lane);
    coopStoreT(c21, &strips[strip], STRIP);
    write_strip(batch, first.y + row + 32u, first.x + col + 16u, strip, lane);
    coopStoreT(c22, &strips[strip], STRIP);
    write_strip(batch, first.y + row + 32u, first.x + col + 32u, strip, lane);
    coopStoreT(c30, &strips[strip], STRIP);
    write_strip(batch, first.y + row + 48u, first.x + col + 0u, strip, lane);
    coopStoreT(c31, &strips[strip], STRIP);
    write_strip(batch, first.y + row + 48u, first.x + col + 16u, strip, lane);
    coopStoreT(c32, &strips[strip], STRIP);
    write_strip(batch, first.y + row + 48u, first.x + col + 32u, strip, lane);
#else
    coopStoreT(c00, &strips[strip], STRIP);
    coopStoreT(c01, &strips[strip + 4u], STRIP);
    write_strip(batch, first.y + row + 0u, first.x + col + 0u, strip, lane);
    coopStoreT(c02, &strips[strip], STRIP);
    coopStoreT(c03, &strips[strip + 4u], STRIP);
    write_strip(batch, first.y + row + 0u, first.x + col + 32u, strip, lane);
    coopStoreT(c10, &strips[strip], STRIP);
    coopStoreT(c11, &strips[strip + 4u], STRIP);
    write_strip(batch, first.y + row + 16u, first.x + col + 0u, strip, lane);
    coopStoreT(c12, &strips[strip], STRIP);
    coopStoreT(c13, &strips[strip + 4u], STRIP);
    write_strip(batch, first.y + row + 16u, first.x + col + 32u, strip, lane);
#if TALL
    coopStoreT(c20, &strips[strip], STRIP);
    coopStoreT(c21, &strips[strip + 4u], STRIP);
    write_strip(batch, first.y + row + 32u, first.x + col + 0u, strip, lane);
    coopStoreT(c22, &strips[strip], STRIP);
    coopStoreT(c23, &strips[strip + 4u], STRIP);
    write_strip(batch, first.y + row + 32u, first.x + col + 32u, strip, lane);
    coopStoreT(c30, &strips[strip], STRIP);
    coopStoreT(c31, &strips[strip + 4u], STRIP);
    write_strip(batch, first.y + row + 48u, first.x + col + 0u, strip, lane);
    coopStoreT(c32, &strips[strip], STRIP);
    coopStoreT(c33, &strips[strip + 4u], STRIP);
    write_strip(batch, first.y + row + 48u, first.x + col + 32u, strip, lane);
#endif
#endif
}
