enable wgpu_cooperative_matrix;
// int8 GEMM on matrix units: a subgroup multiplies matrices of 16×32 and 32×16 bytes. The definition is in
// core/workloads/src/ops/matmul_i8.rs. naga has no matrices of bytes: shaders/src/matrix.rs translates these for Chromium.
//
// Eight subgroups of 32 compute a tile of 128 × 256, each 64 rows of 64 columns: four by four matrices. Tiles of A and B are
// staged by vectors of four words, in rows padded by one. The next ones are in flight meanwhile, in registers. A row of B is a
// column of the right factor.
//
// Accumulators and vectors in flight are variables, because arrays do not stay in registers everywhere. In names of loads and
// stores, T means row-major. Subgroups are numbered by threads, whose range browsers can prove. Loops have the one form that they
// can prove to end.

#import lib/product_order
#import matmul_i8/vec4

#if VEC4_STORES
@group(0) @binding(4) var<storage, read_write> c: array<vec4<elem>>;
#else
@group(0) @binding(4) var<storage, read_write> c: array<elem>;
#endif

// Vectors per staged row, and per row of a strip, each with one of padding against bank conflicts.
const ROW: u32 = PIECES + 1u;
const STRIP: u32 = 9u;
const STEPS: u32 = (WORDS + 4u * PIECES - 1u) / (4u * PIECES);

var<workgroup> a_tile: array<vec4<u32>, BLOCK_M * ROW>;
var<workgroup> b_tile: array<vec4<u32>, BLOCK_N * ROW>;
// A strip of two matrices per subgroup: results pass through it for scaling, and bounds of C.
var<workgroup> strips: array<vec4<i32>, 8u * 16u * STRIP>;

// Stores columns col .. col + 3 of a row of C; col is a multiple of four.
fn store(row: u32, col: u32, sum: vec4<i32>) {
    if !WHOLE && (row >= M || col >= N) {
        return;
    }
    let x = a_scale[row] * vec4<f32>(sum);
    let at = row * N + col;
#if VEC4_STORES
    let by = vec4<f32>(b_scale[col], b_scale[col + 1u], b_scale[col + 2u], b_scale[col + 3u]);
    c[at / 4u] = vec4<elem>(x * by);
#else
    c[at] = elem(x.x * b_scale[col]);
    if col + 1u < N { c[at + 1u] = elem(x.y * b_scale[col + 1u]); }
    if col + 2u < N { c[at + 2u] = elem(x.z * b_scale[col + 2u]); }
    if col + 3u < N { c[at + 3u] = elem(x.w * b_scale[col + 3u]); }
#endif
}

// Stores the subgroup's strip to rows and columns row .. row + 15 and col .. col + 31 of C.
fn write_strip(row: u32, col: u32, strip: u32, lane: u32) {
    workgroupBarrier();
    for (var i = 0u; i < 4u; i++) {
        let down = i * 4u + lane / 8u;
        store(row + down, col + lane % 8u * 4u, strips[strip + down * STRIP + lane % 8u]);
    }
    workgroupBarrier();
}

// A row of accumulators.
#block zero_row(I)
    var c{I}0 = coop_mat16x16<i32, C>();
    var c{I}1 = coop_mat16x16<i32, C>();
    var c{I}2 = coop_mat16x16<i32, C>();
    var c{I}3 = coop_mat16x16<i32, C>();
#end

// Stores a row of accumulators, in two strips, from row AT of the subgroup.
#block write_row(I, AT)
    coopStoreT(c{I}0, &strips[strip], STRIP);
    coopStoreT(c{I}1, &strips[strip + 4u], STRIP);
    write_strip(first.y + row + AT, first.x + col + 0u, strip, lane);
    coopStoreT(c{I}2, &strips[strip], STRIP);
    coopStoreT(c{I}3, &strips[strip + 4u], STRIP);
    write_strip(first.y + row + AT, first.x + col + 32u, strip, lane);
#end

// Adds a row of products of matrices to the accumulators, in half a step.
#block add_row(I, HALF)
    c{I}0 = coopMultiplyAdd(a{HALF}{I}, b{HALF}0, c{I}0);
    c{I}1 = coopMultiplyAdd(a{HALF}{I}, b{HALF}1, c{I}1);
    c{I}2 = coopMultiplyAdd(a{HALF}{I}, b{HALF}2, c{I}2);
    c{I}3 = coopMultiplyAdd(a{HALF}{I}, b{HALF}3, c{I}3);
#end

// Half a step, from vector AT of both tiles.
#block add_half(HALF, AT)
    let a{HALF}0 = coopLoadT<coop_mat32x16<i8, A>>(&a_tile[(row + 0u) * ROW + AT], ROW);
    let a{HALF}1 = coopLoadT<coop_mat32x16<i8, A>>(&a_tile[(row + 16u) * ROW + AT], ROW);
    let a{HALF}2 = coopLoadT<coop_mat32x16<i8, A>>(&a_tile[(row + 32u) * ROW + AT], ROW);
    let a{HALF}3 = coopLoadT<coop_mat32x16<i8, A>>(&a_tile[(row + 48u) * ROW + AT], ROW);
    let b{HALF}0 = coopLoad<coop_mat16x32<i8, B>>(&b_tile[(col + 0u) * ROW + AT], ROW);
    let b{HALF}1 = coopLoad<coop_mat16x32<i8, B>>(&b_tile[(col + 16u) * ROW + AT], ROW);
    let b{HALF}2 = coopLoad<coop_mat16x32<i8, B>>(&b_tile[(col + 32u) * ROW + AT], ROW);
    let b{HALF}3 = coopLoad<coop_mat16x32<i8, B>>(&b_tile[(col + 48u) * ROW + AT], ROW);
    #emit add_row(0, HALF)
    #emit add_row(1, HALF)
    #emit add_row(2, HALF)
    #emit add_row(3, HALF)
#end

@compute @workgroup_size(256)
fn matmul_i8_coopmat(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let across = (N + BLOCK_N - 1u) / BLOCK_N;
    let down = (M + BLOCK_M - 1u) / BLOCK_M;
    let index = group.y * groups.x + group.x;
    if index >= across * down {
        return;
    }
    let first = tile_at(index, across, down) * vec2<u32>(BLOCK_N, BLOCK_M);
    let subgroup = thread / 32u;
    let lane = thread % 32u;
    let row = subgroup / 4u * 64u;
    let col = subgroup % 4u * 64u;
    // Row and vector that the thread stages first; its others are farther down.
    let down_here = thread / PIECES;
    let along = thread % PIECES;
    let to = down_here * ROW + along;
    #emit zero_row(0)
    #emit zero_row(1)
    #emit zero_row(2)
    #emit zero_row(3)
    var next_a0 = vec4_of_a(first.y + down_here + 0u, along * 4u);
    var next_a1 = vec4_of_a(first.y + down_here + 64u, along * 4u);
    var next_b0 = vec4_of_b(first.x + down_here + 0u, along * 4u);
    var next_b1 = vec4_of_b(first.x + down_here + 64u, along * 4u);
    var next_b2 = vec4_of_b(first.x + down_here + 128u, along * 4u);
    var next_b3 = vec4_of_b(first.x + down_here + 192u, along * 4u);

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
            next_a0 = vec4_of_a(first.y + down_here + 0u, at);
            next_a1 = vec4_of_a(first.y + down_here + 64u, at);
            next_b0 = vec4_of_b(first.x + down_here + 0u, at);
            next_b1 = vec4_of_b(first.x + down_here + 64u, at);
            next_b2 = vec4_of_b(first.x + down_here + 128u, at);
            next_b3 = vec4_of_b(first.x + down_here + 192u, at);
        }
        #emit add_half(0, 0u)
        #emit add_half(1, 2u)
    }

    let strip = subgroup * 16u * STRIP;
    #emit write_row(0, 0u)
    #emit write_row(1, 16u)
    #emit write_row(2, 32u)
    #emit write_row(3, 48u)
}
