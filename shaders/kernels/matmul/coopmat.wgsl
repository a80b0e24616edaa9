enable wgpu_cooperative_matrix;
// Matrix product on matrix units: against `tiled`, a subgroup multiplies 16×16 matrices of f16 as a whole and sums in
// f32. The definition is in core/src/suite/workloads/matmul.rs. Cooperative matrices are an extension of native wgpu;
// shaders/src/matrix.rs spells them for browsers.
//
// Four subgroups of 32 compute a tile of 128 × 128, each 64 rows of 64 columns: four by four squares of 16 × 16. What each step
// brought, by TFLOP/s on an H200 at 4096³, in Chromium: matrices straight from device memory 65; tiles staged in workgroup memory by
// vectors of four 126; by eights, the next ones on their way meanwhile, in rows padded by one, 238. Here besides: no bounds are checked
// where tiles are whole, two tiles take turns so that a step needs one barrier, and results leave by eights.
//
// Sums, and what is on its way, are named one by one, since arrays could not be kept in registers everywhere. The T in the names of loads
// and stores means rows that lie one after the other. Subgroups are counted off from the threads, because what browsers can prove of that
// they need not check. Loops have the one form that they can prove to end.

#import lib/product_order
#import lib/product_wide

// Eights in a row of a tile as it is stored, and rows that all threads stage at a time.
#when A_BY_COLUMN const A_EIGHTS: u32 = TILE / 8u;
#when !A_BY_COLUMN const A_EIGHTS: u32 = DEPTH / 8u;
#when B_BY_COLUMN const B_EIGHTS: u32 = DEPTH / 8u;
#when !B_BY_COLUMN const B_EIGHTS: u32 = TILE / 8u;
const A_ROWS: u32 = 128u / A_EIGHTS;
const B_ROWS: u32 = 128u / B_EIGHTS;
// Eights from one staged row to the next, and from one tile to the next: rows padded so that neighbours start in different memory banks.
const A_ROW: u32 = A_EIGHTS + 1u;
const B_ROW: u32 = B_EIGHTS + 1u;
const A_TILE: u32 = 4u * A_ROWS * A_ROW;
const B_TILE: u32 = 4u * B_ROWS * B_ROW;
const STEPS: u32 = (K + DEPTH - 1u) / DEPTH;
// Vectors from one row of a strip to the next.
const STRIP: u32 = 9u;

var<workgroup> a_tiles: array<Piece, 2u * A_TILE * PIECES>;
var<workgroup> b_tiles: array<Piece, 2u * B_TILE * PIECES>;
// One strip of two squares for each subgroup: results pass through it to be rounded, and clipped at the edges of C.
var<workgroup> strips: array<vec4<f32>, 4u * 16u * STRIP>;

// Write the subgroup's strip to rows and columns row .. row + 15 and col .. col + 31 of C.
fn write_strip(batch: u32, row: u32, col: u32, strip: u32, lane: u32) {
    workgroupBarrier();
    for (var i = 0u; i < 2u; i++) {
        let down = i * 8u + lane / 4u;
        let from_here = strip + down * STRIP + lane % 4u * 2u;
        put_eight(batch, row + down, col + lane % 4u * 8u, strips[from_here], strips[from_here + 1u]);
    }
    workgroupBarrier();
}

@compute @workgroup_size(128)
fn matmul_coopmat(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let across = (N + TILE - 1u) / TILE;
    let down = (M + TILE - 1u) / TILE;
    // Not by flat_group: the validator takes a call's result for one that may differ within a workgroup.
    let index = group.y * groups.x + group.x;
    if index >= BATCH * across * down {
        return;
    }
    let batch = index / (across * down);
    let first = tile_at(index % (across * down), across, down) * TILE;
    let subgroup = thread / 32u;
    let lane = thread % 32u;
    let row = subgroup / 2u * 64u;
    let col = subgroup % 2u * 64u;
    // Where the thread's first eights of both tiles are staged, and where they come from; its others lie farther down.
    let ay = thread / A_EIGHTS;
    let ax = thread % A_EIGHTS;
    let by = thread / B_EIGHTS;
    let bx = thread % B_EIGHTS;
#when A_BY_COLUMN     let a_from = vec2<u32>(first.y + ax * 8u, ay);
#when !A_BY_COLUMN     let a_from = vec2<u32>(ax * 8u, first.y + ay);
#when B_BY_COLUMN     let b_from = vec2<u32>(bx * 8u, first.x + by);
#when !B_BY_COLUMN     let b_from = vec2<u32>(first.x + bx * 8u, by);
    var c00 = coop_mat16x16<f32, C>();
    var c01 = coop_mat16x16<f32, C>();
    var c02 = coop_mat16x16<f32, C>();
    var c03 = coop_mat16x16<f32, C>();
    var c10 = coop_mat16x16<f32, C>();
    var c11 = coop_mat16x16<f32, C>();
    var c12 = coop_mat16x16<f32, C>();
    var c13 = coop_mat16x16<f32, C>();
    var c20 = coop_mat16x16<f32, C>();
    var c21 = coop_mat16x16<f32, C>();
    var c22 = coop_mat16x16<f32, C>();
    var c23 = coop_mat16x16<f32, C>();
    var c30 = coop_mat16x16<f32, C>();
    var c31 = coop_mat16x16<f32, C>();
    var c32 = coop_mat16x16<f32, C>();
    var c33 = coop_mat16x16<f32, C>();
    var next_a0 = eight_of_a(batch, a_from.y + 0u * A_ROWS, a_from.x);
    var next_b0 = eight_of_b(batch, b_from.y + 0u * B_ROWS, b_from.x);
    var next_a1 = eight_of_a(batch, a_from.y + 1u * A_ROWS, a_from.x);
    var next_b1 = eight_of_b(batch, b_from.y + 1u * B_ROWS, b_from.x);
    var next_a2 = eight_of_a(batch, a_from.y + 2u * A_ROWS, a_from.x);
    var next_b2 = eight_of_b(batch, b_from.y + 2u * B_ROWS, b_from.x);
    var next_a3 = eight_of_a(batch, a_from.y + 3u * A_ROWS, a_from.x);
    var next_b3 = eight_of_b(batch, b_from.y + 3u * B_ROWS, b_from.x);

    for (var t = 0u; t < STEPS; t++) {
        // Tiles of even steps, and of odd ones: who is still busy with the step before has the other.
        let a_tile = t % 2u * A_TILE;
        let b_tile = t % 2u * B_TILE;
#when IN_A_BROWSER         a_tiles[a_tile + (ay + 0u * A_ROWS) * A_ROW + ax] = next_a0;
#when !IN_A_BROWSER         a_tiles[2u * (a_tile + (ay + 0u * A_ROWS) * A_ROW + ax)] = low_of(next_a0);
#when !IN_A_BROWSER         a_tiles[2u * (a_tile + (ay + 0u * A_ROWS) * A_ROW + ax) + 1u] = high_of(next_a0);
#when IN_A_BROWSER         a_tiles[a_tile + (ay + 1u * A_ROWS) * A_ROW + ax] = next_a1;
#when !IN_A_BROWSER         a_tiles[2u * (a_tile + (ay + 1u * A_ROWS) * A_ROW + ax)] = low_of(next_a1);
#when !IN_A_BROWSER         a_tiles[2u * (a_tile + (ay + 1u * A_ROWS) * A_ROW + ax) + 1u] = high_of(next_a1);
#when IN_A_BROWSER         a_tiles[a_tile + (ay + 2u * A_ROWS) * A_ROW + ax] = next_a2;
#when !IN_A_BROWSER         a_tiles[2u * (a_tile + (ay + 2u * A_ROWS) * A_ROW + ax)] = low_of(next_a2);
#when !IN_A_BROWSER         a_tiles[2u * (a_tile + (ay + 2u * A_ROWS) * A_ROW + ax) + 1u] = high_of(next_a2);
#when IN_A_BROWSER         a_tiles[a_tile + (ay + 3u * A_ROWS) * A_ROW + ax] = next_a3;
#when !IN_A_BROWSER         a_tiles[2u * (a_tile + (ay + 3u * A_ROWS) * A_ROW + ax)] = low_of(next_a3);
#when !IN_A_BROWSER         a_tiles[2u * (a_tile + (ay + 3u * A_ROWS) * A_ROW + ax) + 1u] = high_of(next_a3);
#when IN_A_BROWSER         b_tiles[b_tile + (by + 0u * B_ROWS) * B_ROW + bx] = next_b0;
#when !IN_A_BROWSER         b_tiles[2u * (b_tile + (by + 0u * B_ROWS) * B_ROW + bx)] = low_of(next_b0);
#when !IN_A_BROWSER         b_tiles[2u * (b_tile + (by + 0u * B_ROWS) * B_ROW + bx) + 1u] = high_of(next_b0);
#when IN_A_BROWSER         b_tiles[b_tile + (by + 1u * B_ROWS) * B_ROW + bx] = next_b1;
#when !IN_A_BROWSER         b_tiles[2u * (b_tile + (by + 1u * B_ROWS) * B_ROW + bx)] = low_of(next_b1);
#when !IN_A_BROWSER         b_tiles[2u * (b_tile + (by + 1u * B_ROWS) * B_ROW + bx) + 1u] = high_of(next_b1);
#when IN_A_BROWSER         b_tiles[b_tile + (by + 2u * B_ROWS) * B_ROW + bx] = next_b2;
#when !IN_A_BROWSER         b_tiles[2u * (b_tile + (by + 2u * B_ROWS) * B_ROW + bx)] = low_of(next_b2);
#when !IN_A_BROWSER         b_tiles[2u * (b_tile + (by + 2u * B_ROWS) * B_ROW + bx) + 1u] = high_of(next_b2);
#when IN_A_BROWSER         b_tiles[b_tile + (by + 3u * B_ROWS) * B_ROW + bx] = next_b3;
#when !IN_A_BROWSER         b_tiles[2u * (b_tile + (by + 3u * B_ROWS) * B_ROW + bx)] = low_of(next_b3);
#when !IN_A_BROWSER         b_tiles[2u * (b_tile + (by + 3u * B_ROWS) * B_ROW + bx) + 1u] = high_of(next_b3);
        workgroupBarrier();
        if t + 1u < STEPS {
            let depth = (t + 1u) * DEPTH;
#when A_BY_COLUMN             let a_next = a_from + vec2<u32>(0u, depth);
#when !A_BY_COLUMN             let a_next = a_from + vec2<u32>(depth, 0u);
#when B_BY_COLUMN             let b_next = b_from + vec2<u32>(depth, 0u);
#when !B_BY_COLUMN             let b_next = b_from + vec2<u32>(0u, depth);
            next_a0 = eight_of_a(batch, a_next.y + 0u * A_ROWS, a_next.x);
            next_b0 = eight_of_b(batch, b_next.y + 0u * B_ROWS, b_next.x);
            next_a1 = eight_of_a(batch, a_next.y + 1u * A_ROWS, a_next.x);
            next_b1 = eight_of_b(batch, b_next.y + 1u * B_ROWS, b_next.x);
            next_a2 = eight_of_a(batch, a_next.y + 2u * A_ROWS, a_next.x);
            next_b2 = eight_of_b(batch, b_next.y + 2u * B_ROWS, b_next.x);
            next_a3 = eight_of_a(batch, a_next.y + 3u * A_ROWS, a_next.x);
            next_b3 = eight_of_b(batch, b_next.y + 3u * B_ROWS, b_next.x);
        }
#when A_BY_COLUMN         let a0 = coopLoad<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + 0u * A_ROW + row / 8u + 0u) * PIECES], A_ROW * PIECES);
#when !A_BY_COLUMN         let a0 = coopLoadT<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + (row + 0u) * A_ROW + 0u) * PIECES], A_ROW * PIECES);
#when A_BY_COLUMN         let a1 = coopLoad<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + 0u * A_ROW + row / 8u + 2u) * PIECES], A_ROW * PIECES);
#when !A_BY_COLUMN         let a1 = coopLoadT<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + (row + 16u) * A_ROW + 0u) * PIECES], A_ROW * PIECES);
#when A_BY_COLUMN         let a2 = coopLoad<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + 0u * A_ROW + row / 8u + 4u) * PIECES], A_ROW * PIECES);
#when !A_BY_COLUMN         let a2 = coopLoadT<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + (row + 32u) * A_ROW + 0u) * PIECES], A_ROW * PIECES);
#when A_BY_COLUMN         let a3 = coopLoad<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + 0u * A_ROW + row / 8u + 6u) * PIECES], A_ROW * PIECES);
#when !A_BY_COLUMN         let a3 = coopLoadT<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + (row + 48u) * A_ROW + 0u) * PIECES], A_ROW * PIECES);
#when B_BY_COLUMN         let b0 = coopLoad<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + (col + 0u) * B_ROW + 0u) * PIECES], B_ROW * PIECES);
#when !B_BY_COLUMN         let b0 = coopLoadT<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + 0u * B_ROW + col / 8u + 0u) * PIECES], B_ROW * PIECES);
#when B_BY_COLUMN         let b1 = coopLoad<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + (col + 16u) * B_ROW + 0u) * PIECES], B_ROW * PIECES);
#when !B_BY_COLUMN         let b1 = coopLoadT<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + 0u * B_ROW + col / 8u + 2u) * PIECES], B_ROW * PIECES);
#when B_BY_COLUMN         let b2 = coopLoad<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + (col + 32u) * B_ROW + 0u) * PIECES], B_ROW * PIECES);
#when !B_BY_COLUMN         let b2 = coopLoadT<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + 0u * B_ROW + col / 8u + 4u) * PIECES], B_ROW * PIECES);
#when B_BY_COLUMN         let b3 = coopLoad<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + (col + 48u) * B_ROW + 0u) * PIECES], B_ROW * PIECES);
#when !B_BY_COLUMN         let b3 = coopLoadT<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + 0u * B_ROW + col / 8u + 6u) * PIECES], B_ROW * PIECES);
        c00 = coopMultiplyAdd(a0, b0, c00);
        c01 = coopMultiplyAdd(a0, b1, c01);
        c02 = coopMultiplyAdd(a0, b2, c02);
        c03 = coopMultiplyAdd(a0, b3, c03);
        c10 = coopMultiplyAdd(a1, b0, c10);
        c11 = coopMultiplyAdd(a1, b1, c11);
        c12 = coopMultiplyAdd(a1, b2, c12);
        c13 = coopMultiplyAdd(a1, b3, c13);
        c20 = coopMultiplyAdd(a2, b0, c20);
        c21 = coopMultiplyAdd(a2, b1, c21);
        c22 = coopMultiplyAdd(a2, b2, c22);
        c23 = coopMultiplyAdd(a2, b3, c23);
        c30 = coopMultiplyAdd(a3, b0, c30);
        c31 = coopMultiplyAdd(a3, b1, c31);
        c32 = coopMultiplyAdd(a3, b2, c32);
        c33 = coopMultiplyAdd(a3, b3, c33);
#when A_BY_COLUMN         let a4 = coopLoad<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + 16u * A_ROW + row / 8u + 0u) * PIECES], A_ROW * PIECES);
#when !A_BY_COLUMN         let a4 = coopLoadT<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + (row + 0u) * A_ROW + 2u) * PIECES], A_ROW * PIECES);
#when A_BY_COLUMN         let a5 = coopLoad<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + 16u * A_ROW + row / 8u + 2u) * PIECES], A_ROW * PIECES);
#when !A_BY_COLUMN         let a5 = coopLoadT<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + (row + 16u) * A_ROW + 2u) * PIECES], A_ROW * PIECES);
#when A_BY_COLUMN         let a6 = coopLoad<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + 16u * A_ROW + row / 8u + 4u) * PIECES], A_ROW * PIECES);
#when !A_BY_COLUMN         let a6 = coopLoadT<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + (row + 32u) * A_ROW + 2u) * PIECES], A_ROW * PIECES);
#when A_BY_COLUMN         let a7 = coopLoad<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + 16u * A_ROW + row / 8u + 6u) * PIECES], A_ROW * PIECES);
#when !A_BY_COLUMN         let a7 = coopLoadT<coop_mat16x16<f16, A>>(&a_tiles[(a_tile + (row + 48u) * A_ROW + 2u) * PIECES], A_ROW * PIECES);
#when B_BY_COLUMN         let b4 = coopLoad<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + (col + 0u) * B_ROW + 2u) * PIECES], B_ROW * PIECES);
#when !B_BY_COLUMN         let b4 = coopLoadT<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + 16u * B_ROW + col / 8u + 0u) * PIECES], B_ROW * PIECES);
#when B_BY_COLUMN         let b5 = coopLoad<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + (col + 16u) * B_ROW + 2u) * PIECES], B_ROW * PIECES);
#when !B_BY_COLUMN         let b5 = coopLoadT<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + 16u * B_ROW + col / 8u + 2u) * PIECES], B_ROW * PIECES);
#when B_BY_COLUMN         let b6 = coopLoad<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + (col + 32u) * B_ROW + 2u) * PIECES], B_ROW * PIECES);
#when !B_BY_COLUMN         let b6 = coopLoadT<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + 16u * B_ROW + col / 8u + 4u) * PIECES], B_ROW * PIECES);
#when B_BY_COLUMN         let b7 = coopLoad<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + (col + 48u) * B_ROW + 2u) * PIECES], B_ROW * PIECES);
#when !B_BY_COLUMN         let b7 = coopLoadT<coop_mat16x16<f16, B>>(&b_tiles[(b_tile + 16u * B_ROW + col / 8u + 6u) * PIECES], B_ROW * PIECES);
        c00 = coopMultiplyAdd(a4, b4, c00);
        c01 = coopMultiplyAdd(a4, b5, c01);
        c02 = coopMultiplyAdd(a4, b6, c02);
        c03 = coopMultiplyAdd(a4, b7, c03);
        c10 = coopMultiplyAdd(a5, b4, c10);
        c11 = coopMultiplyAdd(a5, b5, c11);
        c12 = coopMultiplyAdd(a5, b6, c12);
        c13 = coopMultiplyAdd(a5, b7, c13);
        c20 = coopMultiplyAdd(a6, b4, c20);
        c21 = coopMultiplyAdd(a6, b5, c21);
        c22 = coopMultiplyAdd(a6, b6, c22);
        c23 = coopMultiplyAdd(a6, b7, c23);
        c30 = coopMultiplyAdd(a7, b4, c30);
        c31 = coopMultiplyAdd(a7, b5, c31);
        c32 = coopMultiplyAdd(a7, b6, c32);
        c33 = coopMultiplyAdd(a7, b7, c33);
    }

    let strip = subgroup * 16u * STRIP;
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
}
