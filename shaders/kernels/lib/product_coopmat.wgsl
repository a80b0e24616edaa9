// GEMM on matrix units: a subgroup multiplies 16×16 matrices of f16 and sums in f32. The importing kernel defines `epilogue`.
// Cooperative matrices are an extension of native wgpu; shaders/src/matrix.rs translates them for browsers.
//
// Eight subgroups of 32 compute a tile of 128 × 256, each 64 rows of 64 columns: four by four matrices. Where the device would
// have too few such tiles, tiles are 128 × 128, and each subgroup has 32 rows. Where the last wave would be mostly empty, twelve
// subgroups compute a tile of 192 × 192, each 64 rows of 48 columns.
//
// The next vectors of eight are in flight while staged ones are multiplied. Matrices of the next sixteen columns of A are loaded
// while earlier ones are multiplied, across barriers. Results are stored by vectors of eight.
//
// DEEP: tiles of A are 64 columns deep, so that its loads are whole lines of the cache. Tiles of B are 16 rows deep, in two
// buffers. There is one barrier per 16 columns, and one more per tile of A. It needs untransposed matrices and wide tiles.
//
// Accumulators and vectors in flight are variables, because arrays do not stay in registers everywhere. In names of loads and
// stores, T means row-major. Subgroups are numbered by threads, whose range browsers can prove. Loops have the one form that they
// can prove to end.
//
// Choices and measurements: docs/notebook/2026-11-28-kernel-notes.md.

#import lib/product_order
#import lib/product_wide

// WARP_M and WARP_N are the rows and columns of a subgroup.

// Vectors of eight per stored row of a tile, and rows that all threads stage at a time.
#if A_TRANSPOSED
const A_VEC8: u32 = BLOCK_M / 8u;
#else
const A_VEC8: u32 = select(BLOCK_K, 64u, DEEP) / 8u;
#endif
#if B_TRANSPOSED
const B_VEC8: u32 = BLOCK_K / 8u;
#else
const B_VEC8: u32 = BLOCK_N / 8u;
#endif
const A_ROWS: u32 = THREADS / A_VEC8;
const B_ROWS: u32 = THREADS / B_VEC8;
// Vectors per staged row: padded against bank conflicts.
const A_ROW: u32 = A_VEC8 + 1u;
const B_ROW: u32 = B_VEC8 + 1u;
#if A_TRANSPOSED
const A_TILE: u32 = BLOCK_K * A_ROW;
#else
const A_TILE: u32 = BLOCK_M * A_ROW;
#endif
#if B_TRANSPOSED
const B_TILE: u32 = BLOCK_N * B_ROW;
#else
const B_TILE: u32 = BLOCK_K * B_ROW;
#endif
const STEP: u32 = select(BLOCK_K, 64u, DEEP);
const STEPS: u32 = (K + STEP - 1u) / STEP;
// Matrices in a strip, and vectors from one row of it to the next.
const WIDTH: u32 = select(2u, 1u, NARROW_STRIP);
const STRIP: u32 = 4u * WIDTH + 1u;

var<workgroup> a_tile: array<Piece, A_TILE * PIECES>;
var<workgroup> b_tile: array<Piece, B_TILE * PIECES>;
// A strip of one or two matrices per subgroup: results pass through it for rounding, and bounds of C.
var<workgroup> strips: array<vec4<f32>, THREADS / 32u * 16u * STRIP>;

fn stage_a(at: u32, x: F16x8) {
#if IN_A_BROWSER
    a_tile[at] = x;
#else
    a_tile[2u * at] = low_of(x);
    a_tile[2u * at + 1u] = high_of(x);
#endif
}

fn stage_b(at: u32, x: F16x8) {
#if IN_A_BROWSER
    b_tile[at] = x;
#else
    b_tile[2u * at] = low_of(x);
    b_tile[2u * at + 1u] = high_of(x);
#endif
}

// Stores the subgroup's strip to C, from this row and column on.
fn write_strip(batch: u32, row: u32, col: u32, strip: u32, lane: u32) {
    workgroupBarrier();
    for (var i = 0u; i < WIDTH; i++) {
        let down = i * 8u + lane / (2u * WIDTH);
        let along = lane % (2u * WIDTH);
        let from_here = strip + down * STRIP + along * 2u;
        store_f16x8(batch, row + down, col + along * 8u, strips[from_here], strips[from_here + 1u]);
    }
    workgroupBarrier();
}

// A row of accumulators.
#block zero_row(I)
    var c{I}0 = coop_mat16x16<f32, C>();
    var c{I}1 = coop_mat16x16<f32, C>();
    var c{I}2 = coop_mat16x16<f32, C>();
#if WARP_N == 64
    var c{I}3 = coop_mat16x16<f32, C>();
#endif
#end

// Loads the thread's vectors of the next tiles, from these positions of A and B.
#block fetch(NEXT, FROM_A, FROM_B)
    {NEXT}_a0 = f16x8_of_a(batch, FROM_A.y + 0u * A_ROWS, FROM_A.x);
    {NEXT}_a1 = f16x8_of_a(batch, FROM_A.y + 1u * A_ROWS, FROM_A.x);
    {NEXT}_b0 = f16x8_of_b(batch, FROM_B.y + 0u * B_ROWS, FROM_B.x);
    {NEXT}_b1 = f16x8_of_b(batch, FROM_B.y + 1u * B_ROWS, FROM_B.x);
#if BLOCK_N == 256
    {NEXT}_b2 = f16x8_of_b(batch, FROM_B.y + 2u * B_ROWS, FROM_B.x);
    {NEXT}_b3 = f16x8_of_b(batch, FROM_B.y + 3u * B_ROWS, FROM_B.x);
#endif
#end

// Positions of the vectors at `depth`.
#block next_places
#if A_TRANSPOSED
    let a_next = a_from + vec2<u32>(0u, depth);
#else
    let a_next = a_from + vec2<u32>(depth, 0u);
#endif
#if B_TRANSPOSED
    let b_next = b_from + vec2<u32>(depth, 0u);
#else
    let b_next = b_from + vec2<u32>(0u, depth);
#endif
#end

// Stages the vectors that `fetch` loaded.
#block stage_next
    stage_a((ay + 0u * A_ROWS) * A_ROW + ax, next_a0);
    stage_a((ay + 1u * A_ROWS) * A_ROW + ax, next_a1);
    stage_b((by + 0u * B_ROWS) * B_ROW + bx, next_b0);
    stage_b((by + 1u * B_ROWS) * B_ROW + bx, next_b1);
#if BLOCK_N == 256
    stage_b((by + 2u * B_ROWS) * B_ROW + bx, next_b2);
    stage_b((by + 3u * B_ROWS) * B_ROW + bx, next_b3);
#endif
#end

// Loads matrices of 16 columns of A. AT is the first of them in the tile, and VEC8 the same in vectors.
#block load_a(LEFT, AT, VEC8)
#if A_TRANSPOSED
    {LEFT}0 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(AT * A_ROW + row / 8u + 0u) * PIECES], A_ROW * PIECES);
    {LEFT}1 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(AT * A_ROW + row / 8u + 2u) * PIECES], A_ROW * PIECES);
#if WARP_M == 64
    {LEFT}2 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(AT * A_ROW + row / 8u + 4u) * PIECES], A_ROW * PIECES);
    {LEFT}3 = coopLoad<coop_mat16x16<f16, A>>(&a_tile[(AT * A_ROW + row / 8u + 6u) * PIECES], A_ROW * PIECES);
#endif
#else
    {LEFT}0 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 0u) * A_ROW + VEC8) * PIECES], A_ROW * PIECES);
    {LEFT}1 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 16u) * A_ROW + VEC8) * PIECES], A_ROW * PIECES);
#if WARP_M == 64
    {LEFT}2 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 32u) * A_ROW + VEC8) * PIECES], A_ROW * PIECES);
    {LEFT}3 = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[((row + 48u) * A_ROW + VEC8) * PIECES], A_ROW * PIECES);
#endif
#endif
#end

// Loads matrices of 16 rows of B. AT is the first of them in the tile, and VEC8 the same in vectors.
#block load_b(RIGHT, AT, VEC8)
#if B_TRANSPOSED
    {RIGHT}0 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 0u) * B_ROW + VEC8) * PIECES], B_ROW * PIECES);
    {RIGHT}1 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 16u) * B_ROW + VEC8) * PIECES], B_ROW * PIECES);
    {RIGHT}2 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 32u) * B_ROW + VEC8) * PIECES], B_ROW * PIECES);
#if WARP_N == 64
    {RIGHT}3 = coopLoad<coop_mat16x16<f16, B>>(&b_tile[((col + 48u) * B_ROW + VEC8) * PIECES], B_ROW * PIECES);
#endif
#else
    {RIGHT}0 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(AT * B_ROW + col / 8u + 0u) * PIECES], B_ROW * PIECES);
    {RIGHT}1 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(AT * B_ROW + col / 8u + 2u) * PIECES], B_ROW * PIECES);
    {RIGHT}2 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(AT * B_ROW + col / 8u + 4u) * PIECES], B_ROW * PIECES);
#if WARP_N == 64
    {RIGHT}3 = coopLoadT<coop_mat16x16<f16, B>>(&b_tile[(AT * B_ROW + col / 8u + 6u) * PIECES], B_ROW * PIECES);
#endif
#endif
#end

// Loads both.
#block load(LEFT, RIGHT, AT, VEC8)
    #emit load_a(LEFT, AT, VEC8)
    #emit load_b(RIGHT, AT, VEC8)
#end

// Adds a row of products of matrices to the accumulators.
#block add_row(I, LEFT, RIGHT)
    c{I}0 = coopMultiplyAdd({LEFT}{I}, {RIGHT}0, c{I}0);
    c{I}1 = coopMultiplyAdd({LEFT}{I}, {RIGHT}1, c{I}1);
    c{I}2 = coopMultiplyAdd({LEFT}{I}, {RIGHT}2, c{I}2);
#if WARP_N == 64
    c{I}3 = coopMultiplyAdd({LEFT}{I}, {RIGHT}3, c{I}3);
#endif
#end

// Stores one matrix of a row, from row AT and column COL of the subgroup; or two.
#block write_one(I, J, AT, COL)
    coopStoreT(c{I}{J}, &strips[strip], STRIP);
    write_strip(batch, first.y + row + AT, first.x + col + COL, strip, lane);
#end
#block write_two(I, J, K, AT, COL)
    coopStoreT(c{I}{J}, &strips[strip], STRIP);
    coopStoreT(c{I}{K}, &strips[strip + 4u], STRIP);
    write_strip(batch, first.y + row + AT, first.x + col + COL, strip, lane);
#end

// Stores a row of accumulators, from row AT of the subgroup.
#block write_row(I, AT)
#if NARROW_STRIP
    #emit write_one(I, 0, AT, 0u)
    #emit write_one(I, 1, AT, 16u)
    #emit write_one(I, 2, AT, 32u)
#if WARP_N == 64
    #emit write_one(I, 3, AT, 48u)
#endif
#else
    #emit write_two(I, 0, 1, AT, 0u)
    #emit write_two(I, 2, 3, AT, 32u)
#endif
#end

#if DEEP
// Loads the thread's vectors of the tile of A of a step, and those of 16 rows of B.
#block fetch_deep_a(NEXT, STEP_INDEX)
    {NEXT}_a0 = f16x8_of_a(batch, a_from.y + 0u * A_ROWS, a_from.x + (STEP_INDEX) * STEP);
    {NEXT}_a1 = f16x8_of_a(batch, a_from.y + 1u * A_ROWS, a_from.x + (STEP_INDEX) * STEP);
    {NEXT}_a2 = f16x8_of_a(batch, a_from.y + 2u * A_ROWS, a_from.x + (STEP_INDEX) * STEP);
    {NEXT}_a3 = f16x8_of_a(batch, a_from.y + 3u * A_ROWS, a_from.x + (STEP_INDEX) * STEP);
#end
#block fetch_deep_b(NEXT, SIXTEENTH)
    {NEXT}_b0 = f16x8_of_b(batch, b_from.y + (SIXTEENTH) * 16u + 0u * B_ROWS, b_from.x);
    {NEXT}_b1 = f16x8_of_b(batch, b_from.y + (SIXTEENTH) * 16u + 1u * B_ROWS, b_from.x);
#end

// Stages them; those of B from row AT of the buffers.
#block stage_deep_a
    stage_a((ay + 0u * A_ROWS) * A_ROW + ax, next_a0);
    stage_a((ay + 1u * A_ROWS) * A_ROW + ax, next_a1);
    stage_a((ay + 2u * A_ROWS) * A_ROW + ax, next_a2);
    stage_a((ay + 3u * A_ROWS) * A_ROW + ax, next_a3);
#end
#block stage_deep_b(AT)
    stage_b((AT + by + 0u * B_ROWS) * B_ROW + bx, next_b0);
    stage_b((AT + by + 1u * B_ROWS) * B_ROW + bx, next_b1);
#end

// Multiplies matrices of 16 columns while vectors of later rows of B are staged and loaded.
#block add_deep(LEFT, RIGHT, AT, LATER)
    #emit add_row(0, LEFT, RIGHT)
    #emit add_row(1, LEFT, RIGHT)
    #emit stage_deep_b(AT)
    #emit fetch_deep_b(next, min(t * 4u + LATER, STEPS * 4u - 1u))
#end
#endif

@compute @workgroup_size(THREADS)
fn product_coopmat(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let across = (N + BLOCK_N - 1u) / BLOCK_N;
    let down = (M + BLOCK_M - 1u) / BLOCK_M;
    // Without flat_group: the validator assumes that a call's result may differ within a workgroup.
    let index = group.y * groups.x + group.x;
    if index >= BATCH * across * down {
        return;
    }
    let batch = index / (across * down);
    let first = tile_at(index % (across * down), across, down) * vec2<u32>(BLOCK_N, BLOCK_M);
    let subgroup = thread / 32u;
    let lane = thread % 32u;
    let row = subgroup / (BLOCK_N / WARP_N) * WARP_M;
    let col = subgroup % (BLOCK_N / WARP_N) * WARP_N;
    // Places of the thread's first vectors of both tiles, and their sources; the others are farther down.
    let ay = thread / A_VEC8;
    let ax = thread % A_VEC8;
    let by = thread / B_VEC8;
    let bx = thread % B_VEC8;
#if A_TRANSPOSED
    let a_from = vec2<u32>(first.y + ax * 8u, ay);
#else
    let a_from = vec2<u32>(ax * 8u, first.y + ay);
#endif
#if B_TRANSPOSED
    let b_from = vec2<u32>(bx * 8u, first.x + by);
#else
    let b_from = vec2<u32>(first.x + bx * 8u, by);
#endif
    #emit zero_row(0)
    #emit zero_row(1)
#if WARP_M == 64
    #emit zero_row(2)
    #emit zero_row(3)
#endif
#if DEEP
    #emit fetch_deep_a(var next, 0u)
    #emit fetch_deep_b(var next, 0u)

    #emit stage_deep_a
    #emit stage_deep_b(0u)
    #emit fetch_deep_b(next, 1u)
    #emit stage_deep_b(16u)
    #emit fetch_deep_a(next, min(1u, STEPS - 1u))
    #emit fetch_deep_b(next, 2u)
    workgroupBarrier();
    #emit load(var a, var b, 0u, 0u)
    for (var t = 0u; t < STEPS; t++) {
        #emit load(var f, var g, 16u, 2u)
        #emit add_deep(a, b, 0u, 3u)
        #emit add_row(2, a, b)
        #emit add_row(3, a, b)
        workgroupBarrier();
        #emit load(a, b, 0u, 4u)
        #emit add_deep(f, g, 16u, 4u)
        #emit add_row(2, f, g)
        #emit add_row(3, f, g)
        workgroupBarrier();
        #emit load(f, g, 16u, 6u)
        #emit add_deep(a, b, 0u, 5u)
        #emit add_row(2, a, b)
        #emit add_row(3, a, b)
        workgroupBarrier();
        // All threads have loaded the tile of A. After the last step, old matrices are loaded and not multiplied.
        #emit stage_deep_a
        #emit fetch_deep_a(next, min(t + 2u, STEPS - 1u))
        #emit load_b(b, 0u, 0u)
        #emit add_deep(f, g, 16u, 6u)
        workgroupBarrier();
        #emit load_a(a, 0u, 0u)
        #emit add_row(2, f, g)
        #emit add_row(3, f, g)
    }
#else
    #emit fetch(var next, a_from, b_from)

    #emit stage_next
    workgroupBarrier();
    #emit load(var a, var b, 0u, 0u)
    if 1u < STEPS {
        let depth = (1u) * BLOCK_K;
        #emit next_places
        #emit fetch(next, a_next, b_next)
    }
    for (var t = 0u; t < STEPS; t++) {
        #emit load(let f, let g, 16u, 2u)
        #emit add_row(0, a, b)
        #emit add_row(1, a, b)
#if WARP_M == 64
        #emit add_row(2, a, b)
        #emit add_row(3, a, b)
#endif
        // All threads have loaded the tiles. The next ones follow, and the multiplication meanwhile needs no memory.
        workgroupBarrier();
        if t + 1u < STEPS {
            #emit stage_next
        }
        if t + 2u < STEPS {
            let depth = (t + 2u) * BLOCK_K;
            #emit next_places
            #emit fetch(next, a_next, b_next)
        }
        #emit add_row(0, f, g)
#if WARP_M == 64
        #emit add_row(1, f, g)
        #emit add_row(2, f, g)
#endif
        workgroupBarrier();
        // After the last step, old matrices are loaded and not multiplied.
        #emit load(a, b, 0u, 0u)
#if WARP_M == 64
        #emit add_row(3, f, g)
#else
        #emit add_row(1, f, g)
#endif
    }
#endif

    let strip = subgroup * 16u * STRIP;
    #emit write_row(0, 0u)
    #emit write_row(1, 16u)
#if WARP_M == 64
    #emit write_row(2, 32u)
    #emit write_row(3, 48u)
#endif
}
