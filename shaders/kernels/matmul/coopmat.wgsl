enable wgpu_cooperative_matrix;
// Matrix product on matrix units: against `tiled`, a subgroup multiplies 16×16 matrices of f16 as a whole and sums in
// f32. The definition is in core/src/suite/workloads/matmul.rs. Cooperative matrices are an extension of native wgpu;
// shaders/src/matrix.rs spells them for browsers.
//
// Four subgroups of 32 compute a tile of 128 × 128, each 64 rows of 64 columns: four by four squares of 16 × 16. What they multiply
// next is on its way from device memory in the meantime. Sums, and what is on its way, are named one by one, since arrays could not
// be kept in registers everywhere. The T in the names of loads and stores means rows that lie one after the other, as they do here.

#import lib/product

// Vectors in a staged row.
const A_ROW: u32 = (DEPTH + PADDING) / 4u;
const B_ROW: u32 = (TILE + PADDING) / 4u;

var<workgroup> a_tile: array<vec4<f16>, TILE * A_ROW>;
var<workgroup> b_tile: array<vec4<f16>, DEPTH * B_ROW>;
// One square for each subgroup: results pass through it to be rounded, and clipped at the edges of C.
var<workgroup> squares: array<f32, 4u * 256u>;

// Write the subgroup's square to rows and columns row .. row + 15 and col .. col + 15 of C.
fn write_square(row: u32, col: u32, square: u32, lane: u32) {
    workgroupBarrier();
    for (var e = lane; e < 256u; e += 32u) {
        let y = row + e / 16u;
        let x = col + e % 16u;
        if y < M && x < N {
            c[y * N + x] = f16(squares[square + e]);
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(128)
fn matmul_coopmat(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let across = (N + TILE - 1u) / TILE;
    let down = (M + TILE - 1u) / TILE;
    // Not by flat_group: the validator takes a call's result for one that may differ within a workgroup.
    let index = group.y * groups.x + group.x;
    if index >= across * down {
        return;
    }
    let first = tile_at(index, across, down) * TILE;
    let row = subgroup / 2u * 64u;
    let col = subgroup % 2u * 64u;
    // Where the thread's first vectors of both tiles are staged; its others are 16 rows of A, and four of B, farther down each.
    let ay = thread / (DEPTH / 4u);
    let ax = thread % (DEPTH / 4u);
    let by = thread / (TILE / 4u);
    let bx = thread % (TILE / 4u);
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
    var next_a0 = four_of_a(0u, first.y + ay + 0u, ax * 4u);
    var next_b0 = four_of_b(0u, by + 0u, first.x + bx * 4u);
    var next_a1 = four_of_a(0u, first.y + ay + 16u, ax * 4u);
    var next_b1 = four_of_b(0u, by + 4u, first.x + bx * 4u);
    var next_a2 = four_of_a(0u, first.y + ay + 32u, ax * 4u);
    var next_b2 = four_of_b(0u, by + 8u, first.x + bx * 4u);
    var next_a3 = four_of_a(0u, first.y + ay + 48u, ax * 4u);
    var next_b3 = four_of_b(0u, by + 12u, first.x + bx * 4u);
    var next_a4 = four_of_a(0u, first.y + ay + 64u, ax * 4u);
    var next_b4 = four_of_b(0u, by + 16u, first.x + bx * 4u);
    var next_a5 = four_of_a(0u, first.y + ay + 80u, ax * 4u);
    var next_b5 = four_of_b(0u, by + 20u, first.x + bx * 4u);
    var next_a6 = four_of_a(0u, first.y + ay + 96u, ax * 4u);
    var next_b6 = four_of_b(0u, by + 24u, first.x + bx * 4u);
    var next_a7 = four_of_a(0u, first.y + ay + 112u, ax * 4u);
    var next_b7 = four_of_b(0u, by + 28u, first.x + bx * 4u);

    for (var depth = 0u; depth < K; depth += DEPTH) {
        workgroupBarrier();
        a_tile[(ay + 0u) * A_ROW + ax] = next_a0;
        b_tile[(by + 0u) * B_ROW + bx] = next_b0;
        a_tile[(ay + 16u) * A_ROW + ax] = next_a1;
        b_tile[(by + 4u) * B_ROW + bx] = next_b1;
        a_tile[(ay + 32u) * A_ROW + ax] = next_a2;
        b_tile[(by + 8u) * B_ROW + bx] = next_b2;
        a_tile[(ay + 48u) * A_ROW + ax] = next_a3;
        b_tile[(by + 12u) * B_ROW + bx] = next_b3;
        a_tile[(ay + 64u) * A_ROW + ax] = next_a4;
        b_tile[(by + 16u) * B_ROW + bx] = next_b4;
        a_tile[(ay + 80u) * A_ROW + ax] = next_a5;
        b_tile[(by + 20u) * B_ROW + bx] = next_b5;
        a_tile[(ay + 96u) * A_ROW + ax] = next_a6;
        b_tile[(by + 24u) * B_ROW + bx] = next_b6;
        a_tile[(ay + 112u) * A_ROW + ax] = next_a7;
        b_tile[(by + 28u) * B_ROW + bx] = next_b7;
        workgroupBarrier();
        next_a0 = four_of_a(0u, first.y + ay + 0u, depth + DEPTH + ax * 4u);
        next_b0 = four_of_b(0u, depth + DEPTH + by + 0u, first.x + bx * 4u);
        next_a1 = four_of_a(0u, first.y + ay + 16u, depth + DEPTH + ax * 4u);
        next_b1 = four_of_b(0u, depth + DEPTH + by + 4u, first.x + bx * 4u);
        next_a2 = four_of_a(0u, first.y + ay + 32u, depth + DEPTH + ax * 4u);
        next_b2 = four_of_b(0u, depth + DEPTH + by + 8u, first.x + bx * 4u);
        next_a3 = four_of_a(0u, first.y + ay + 48u, depth + DEPTH + ax * 4u);
        next_b3 = four_of_b(0u, depth + DEPTH + by + 12u, first.x + bx * 4u);
        next_a4 = four_of_a(0u, first.y + ay + 64u, depth + DEPTH + ax * 4u);
        next_b4 = four_of_b(0u, depth + DEPTH + by + 16u, first.x + bx * 4u);
        next_a5 = four_of_a(0u, first.y + ay + 80u, depth + DEPTH + ax * 4u);
        next_b5 = four_of_b(0u, depth + DEPTH + by + 20u, first.x + bx * 4u);
        next_a6 = four_of_a(0u, first.y + ay + 96u, depth + DEPTH + ax * 4u);
        next_b6 = four_of_b(0u, depth + DEPTH + by + 24u, first.x + bx * 4u);
        next_a7 = four_of_a(0u, first.y + ay + 112u, depth + DEPTH + ax * 4u);
        next_b7 = four_of_b(0u, depth + DEPTH + by + 28u, first.x + bx * 4u);
        for (var d = 0u; d < DEPTH / 16u; d++) {
            let a0 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[(row + 0u) * A_ROW + d * 4u], A_ROW);
            let a1 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[(row + 16u) * A_ROW + d * 4u], A_ROW);
            let a2 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[(row + 32u) * A_ROW + d * 4u], A_ROW);
            let a3 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[(row + 48u) * A_ROW + d * 4u], A_ROW);
            let b0 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[d * 16u * B_ROW + (col + 0u) / 4u], B_ROW);
            let b1 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[d * 16u * B_ROW + (col + 16u) / 4u], B_ROW);
            let b2 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[d * 16u * B_ROW + (col + 32u) / 4u], B_ROW);
            let b3 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[d * 16u * B_ROW + (col + 48u) / 4u], B_ROW);
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
        }
    }

    let square = subgroup * 256u;
    coopStoreT(c00, &squares[square], 16u);
    write_square(first.y + row + 0u, first.x + col + 0u, square, lane);
    coopStoreT(c01, &squares[square], 16u);
    write_square(first.y + row + 0u, first.x + col + 16u, square, lane);
    coopStoreT(c02, &squares[square], 16u);
    write_square(first.y + row + 0u, first.x + col + 32u, square, lane);
    coopStoreT(c03, &squares[square], 16u);
    write_square(first.y + row + 0u, first.x + col + 48u, square, lane);
    coopStoreT(c10, &squares[square], 16u);
    write_square(first.y + row + 16u, first.x + col + 0u, square, lane);
    coopStoreT(c11, &squares[square], 16u);
    write_square(first.y + row + 16u, first.x + col + 16u, square, lane);
    coopStoreT(c12, &squares[square], 16u);
    write_square(first.y + row + 16u, first.x + col + 32u, square, lane);
    coopStoreT(c13, &squares[square], 16u);
    write_square(first.y + row + 16u, first.x + col + 48u, square, lane);
    coopStoreT(c20, &squares[square], 16u);
    write_square(first.y + row + 32u, first.x + col + 0u, square, lane);
    coopStoreT(c21, &squares[square], 16u);
    write_square(first.y + row + 32u, first.x + col + 16u, square, lane);
    coopStoreT(c22, &squares[square], 16u);
    write_square(first.y + row + 32u, first.x + col + 32u, square, lane);
    coopStoreT(c23, &squares[square], 16u);
    write_square(first.y + row + 32u, first.x + col + 48u, square, lane);
    coopStoreT(c30, &squares[square], 16u);
    write_square(first.y + row + 48u, first.x + col + 0u, square, lane);
    coopStoreT(c31, &squares[square], 16u);
    write_square(first.y + row + 48u, first.x + col + 16u, square, lane);
    coopStoreT(c32, &squares[square], 16u);
    write_square(first.y + row + 48u, first.x + col + 32u, square, lane);
    coopStoreT(c33, &squares[square], 16u);
    write_square(first.y + row + 48u, first.x + col + 48u, square, lane);
}
