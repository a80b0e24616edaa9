enable wgpu_cooperative_matrix;
// Matrix product on matrix units: against `tiled`, a subgroup multiplies 16×16 matrices of f16 as a whole and sums in
// f32. The definition is in core/src/suite/workloads/matmul.rs. Cooperative matrices are an extension of native wgpu.
//
// Eight subgroups of 32 compute a tile of 128 × 128, each 64 rows of 32 columns: four by two squares of 16 × 16. Their
// sums are named one by one, since an array of matrices could not be kept in registers everywhere. The T in the names of
// loads and stores means rows that lie one after the other, as they do here.

#import lib/product

// Vectors in a staged row.
const A_ROW: u32 = (DEPTH + PADDING) / 4u;
const B_ROW: u32 = (TILE + PADDING) / 4u;

var<workgroup> a_tile: array<vec4<f16>, TILE * A_ROW>;
var<workgroup> b_tile: array<vec4<f16>, DEPTH * B_ROW>;
// One square for each subgroup: results pass through it to be rounded, and clipped at the edges of C.
var<workgroup> squares: array<f32, 8u * 256u>;

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

@compute @workgroup_size(256)
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
    let row = subgroup / 4u * 64u;
    let col = subgroup % 4u * 32u;
    var c00 = coop_mat16x16<f32, C>();
    var c01 = coop_mat16x16<f32, C>();
    var c10 = coop_mat16x16<f32, C>();
    var c11 = coop_mat16x16<f32, C>();
    var c20 = coop_mat16x16<f32, C>();
    var c21 = coop_mat16x16<f32, C>();
    var c30 = coop_mat16x16<f32, C>();
    var c31 = coop_mat16x16<f32, C>();

    for (var depth = 0u; depth < K; depth += DEPTH) {
        workgroupBarrier();
        for (var e = thread; e < TILE * (DEPTH / 4u); e += 256u) {
            let y = e / (DEPTH / 4u);
            let x = e % (DEPTH / 4u);
            a_tile[y * A_ROW + x] = four_of_a(0u, first.y + y, depth + x * 4u);
        }
        for (var e = thread; e < DEPTH * (TILE / 4u); e += 256u) {
            let y = e / (TILE / 4u);
            let x = e % (TILE / 4u);
            b_tile[y * B_ROW + x] = four_of_b(0u, depth + y, first.x + x * 4u);
        }
        workgroupBarrier();
        for (var d = 0u; d < DEPTH / 16u; d++) {
            let a0 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[(row + 0u) * A_ROW + d * 4u], A_ROW);
            let a1 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[(row + 16u) * A_ROW + d * 4u], A_ROW);
            let a2 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[(row + 32u) * A_ROW + d * 4u], A_ROW);
            let a3 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[(row + 48u) * A_ROW + d * 4u], A_ROW);
            let b0 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[d * 16u * B_ROW + (col + 0u) / 4u], B_ROW);
            let b1 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[d * 16u * B_ROW + (col + 16u) / 4u], B_ROW);
            c00 = coopMultiplyAdd(a0, b0, c00);
            c01 = coopMultiplyAdd(a0, b1, c01);
            c10 = coopMultiplyAdd(a1, b0, c10);
            c11 = coopMultiplyAdd(a1, b1, c11);
            c20 = coopMultiplyAdd(a2, b0, c20);
            c21 = coopMultiplyAdd(a2, b1, c21);
            c30 = coopMultiplyAdd(a3, b0, c30);
            c31 = coopMultiplyAdd(a3, b1, c31);
        }
    }

    let square = subgroup * 256u;
    coopStoreT(c00, &squares[square], 16u);
    write_square(first.y + row + 0u, first.x + col + 0u, square, lane);
    coopStoreT(c01, &squares[square], 16u);
    write_square(first.y + row + 0u, first.x + col + 16u, square, lane);
    coopStoreT(c10, &squares[square], 16u);
    write_square(first.y + row + 16u, first.x + col + 0u, square, lane);
    coopStoreT(c11, &squares[square], 16u);
    write_square(first.y + row + 16u, first.x + col + 16u, square, lane);
    coopStoreT(c20, &squares[square], 16u);
    write_square(first.y + row + 32u, first.x + col + 0u, square, lane);
    coopStoreT(c21, &squares[square], 16u);
    write_square(first.y + row + 32u, first.x + col + 16u, square, lane);
    coopStoreT(c30, &squares[square], 16u);
    write_square(first.y + row + 48u, first.x + col + 0u, square, lane);
    coopStoreT(c31, &squares[square], 16u);
    write_square(first.y + row + 48u, first.x + col + 16u, square, lane);
}
