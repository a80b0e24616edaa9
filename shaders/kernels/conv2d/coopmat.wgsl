enable wgpu_cooperative_matrix;
// Implicit GEMM on matrix units: a subgroup multiplies 16×16 matrices of f16 and sums in f32. The definition is in
// core/workloads/src/ops/conv2d. Cooperative matrices are an extension of native wgpu; shaders/src/matrix.rs translates them for
// browsers.
//
// With channels last, a row is a position and a column an output channel; otherwise the reverse. Columns of a matrix are then
// neighbours in memory. A workgroup computes a tile of BLOCK_M × BLOCK_N, and each of its subgroups of 32 computes WARP_M rows of
// WARP_N columns. A thread stages FILTERS vectors of filters and PIXELS vectors of positions.
//
// The next vectors are in flight while staged ones are multiplied. Matrices of the next sixteen terms are loaded during products,
// across barriers. Names and loops follow `lib/product_coopmat`. Without T in the name of a load, filters are loaded by columns.
//
// Measurements: docs/notebook/2026-11-28-kernel-notes.md.

#import conv2d/f16x8

// Vectors of eight along the terms, per staged row of terms, and per staged row of positions. A vector of padding per row avoids
// bank conflicts.
const K_VEC8: u32 = BLOCK_K / 8u;
const TERMS_ROW: u32 = K_VEC8 + 1u;
const POSITIONS_ROW: u32 = BLOCK_N / 8u + 1u;
// Staged rows of terms between a thread's vectors, and rows of positions.
const FARTHER: u32 = THREADS / K_VEC8;
const BELOW: u32 = THREADS / (BLOCK_N / 8u);
// Distance between a thread's staged vectors of pixels.
const NEXT_PIXELS: u32 = select(BELOW * POSITIONS_ROW, FARTHER * TERMS_ROW, LAST);
const STEPS: u32 = (TERMS + BLOCK_K - 1u) / BLOCK_K;
// Vectors from one row of a strip to the next.
const STRIP: u32 = 9u;

// Rows of terms per channel, and per position; or rows of positions per term.
#if LAST
var<workgroup> kernels: array<Piece, BLOCK_N * TERMS_ROW * PIECES>;
var<workgroup> pixels: array<Piece, BLOCK_M * TERMS_ROW * PIECES>;
#else
var<workgroup> kernels: array<Piece, BLOCK_M * TERMS_ROW * PIECES>;
var<workgroup> pixels: array<Piece, BLOCK_K * POSITIONS_ROW * PIECES>;
#endif
// A strip of two 16×16 tiles per subgroup. Results pass through it for the epilogue, rounding, and bounds.
var<workgroup> strips: array<vec4<f32>, THREADS / 32u * 16u * STRIP>;

// Up to four rows of pixels that a thread stages, or four terms of its eight positions.
fn pixels_of(known: Known, further: Known, group: u32, depth: u32, thread: u32) -> Block {
    if LAST {
        return terms_of_each(known, group, depth + thread % K_VEC8 * 8u);
    }
    let term = depth + thread / (BLOCK_N / 8u);
    return Block(
        term_of_8(known, further, group, term),
        term_of_8(known, further, group, term + BELOW),
        term_of_8(known, further, group, term + 2u * BELOW),
        term_of_8(known, further, group, term + 3u * BELOW),
    );
}

// Rows of filters that a thread stages.
fn kernels_of(group: u32, first: u32, depth: u32, thread: u32) -> Block {
    let row = first + thread / K_VEC8;
    let term = depth + thread % K_VEC8 * 8u;
    var rows = Block();
    rows.x = terms_of_row(group, row, term);
    rows.y = terms_of_row(group, row + FARTHER, term);
#if FILTERS == 4
    rows.z = terms_of_row(group, row + 2u * FARTHER, term);
    rows.w = terms_of_row(group, row + 3u * FARTHER, term);
#endif
    return rows;
}

// Stores the subgroup's strip to rows row .. row + 15 and columns col .. col + 31.
fn write_strip(group: u32, row: u32, col: u32, strip: u32, lane: u32) {
    workgroupBarrier();
    for (var i = 0u; i < 2u; i++) {
        let down = i * 8u + lane / 4u;
        let right = col + lane % 4u * 8u;
        let from_here = strip + down * STRIP + lane % 4u * 2u;
        store_f16x8(group, select(row + down, right, LAST), select(right, row + down, LAST), strips[from_here], strips[from_here + 1u]);
    }
    workgroupBarrier();
}

// Stages a vector of eight elements.
#block store(TO, AT, VEC8)
#if IN_A_BROWSER
    TO[AT] = VEC8;
#else
    TO[(AT) * 2u] = low_of(VEC8);
    TO[(AT) * 2u + 1u] = high_of(VEC8);
#endif
#end

// A row of accumulators.
#block zero_row(I)
    var c{I}0 = coop_mat16x16<f32, C>();
    var c{I}1 = coop_mat16x16<f32, C>();
#if WARP_N == 64
    var c{I}2 = coop_mat16x16<f32, C>();
    var c{I}3 = coop_mat16x16<f32, C>();
#endif
#end

// Stores a row of accumulators, in two strips, from row AT of the subgroup.
#block write_row(I, AT)
    coopStoreT(c{I}0, &strips[strip], STRIP);
    coopStoreT(c{I}1, &strips[strip + 4u], STRIP);
    write_strip(group, down + AT, across + 0u, strip, lane);
#if WARP_N == 64
    coopStoreT(c{I}2, &strips[strip], STRIP);
    coopStoreT(c{I}3, &strips[strip + 4u], STRIP);
    write_strip(group, down + AT, across + 32u, strip, lane);
#endif
#end

// Adds a row of products of matrices to the accumulators.
#block add_row(I, LEFT, RIGHT)
    c{I}0 = coopMultiplyAdd({LEFT}{I}, {RIGHT}0, c{I}0);
    c{I}1 = coopMultiplyAdd({LEFT}{I}, {RIGHT}1, c{I}1);
#if WARP_N == 64
    c{I}2 = coopMultiplyAdd({LEFT}{I}, {RIGHT}2, c{I}2);
    c{I}3 = coopMultiplyAdd({LEFT}{I}, {RIGHT}3, c{I}3);
#endif
#end

// Loads a matrix of A, from row AT of the subgroup. VEC8 is the first vector of its terms.
#block load_row(LEFT, I, AT, VEC8)
#if LAST
    {LEFT}{I} = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + AT) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
#else
    {LEFT}{I} = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + AT) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
#endif
#end

// Loads a matrix of B, from column AT of the subgroup. TERM is its first term, and VEC8 the same in vectors.
#block load_column(RIGHT, J, AT, VEC8, TERM)
#if LAST
    {RIGHT}{J} = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + AT) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
#else
    {RIGHT}{J} = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(TERM * POSITIONS_ROW + (col + AT) / 8u) * PIECES], POSITIONS_ROW * PIECES);
#endif
#end

// Loads half a step of matrices. TERM is its first term, and VEC8 the same in vectors.
#block load(LEFT, RIGHT, VEC8, TERM)
    #emit load_row({LEFT}, 0, 0u, VEC8)
    #emit load_row({LEFT}, 1, 16u, VEC8)
    #emit load_row({LEFT}, 2, 32u, VEC8)
#if WARP_M == 64
    #emit load_row({LEFT}, 3, 48u, VEC8)
#endif
    #emit load_column({RIGHT}, 0, 0u, VEC8, TERM)
    #emit load_column({RIGHT}, 1, 16u, VEC8, TERM)
#if WARP_N == 64
    #emit load_column({RIGHT}, 2, 32u, VEC8, TERM)
    #emit load_column({RIGHT}, 3, 48u, VEC8, TERM)
#endif
#end

// Stages the vectors that are in flight.
#block stage_next
    #emit store(kernels, of_terms + 0u * FARTHER * TERMS_ROW, next_kernels.x)
    #emit store(kernels, of_terms + 1u * FARTHER * TERMS_ROW, next_kernels.y)
#if FILTERS == 4
    #emit store(kernels, of_terms + 2u * FARTHER * TERMS_ROW, next_kernels.z)
    #emit store(kernels, of_terms + 3u * FARTHER * TERMS_ROW, next_kernels.w)
#endif
    #emit store(pixels, of_pixels + 0u * NEXT_PIXELS, next_pixels.x)
    #emit store(pixels, of_pixels + 1u * NEXT_PIXELS, next_pixels.y)
#if PIXELS == 3
    #emit store(pixels, of_pixels + 2u * NEXT_PIXELS, next_pixels.z)
#endif
#if PIXELS == 4
    #emit store(pixels, of_pixels + 2u * NEXT_PIXELS, next_pixels.z)
    #emit store(pixels, of_pixels + 3u * NEXT_PIXELS, next_pixels.w)
#endif
#end

@compute @workgroup_size(THREADS)
fn conv2d_coopmat(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    // Workgroups that run together share positions, then filters.
    let channels = select(BLOCK_M, BLOCK_N, LAST);
    let positions = select(BLOCK_N, BLOCK_M, LAST);
    let over_channels = (TO_C + channels - 1u) / channels;
    let over_positions = (POSITIONS + positions - 1u) / positions;
    // Without flat_group: the validator assumes that a call's result may differ within a workgroup.
    let index = workgroup.y * workgroups.x + workgroup.x;
    let group = index / (over_channels * over_positions);
    if group >= GROUPS {
        return;
    }
    let channel = index % over_channels * channels;
    let position = index / over_channels % over_positions * positions;
    let subgroup = thread / 32u;
    let lane = thread % 32u;
    let row = subgroup / (BLOCK_N / WARP_N) * WARP_M;
    let col = subgroup % (BLOCK_N / WARP_N) * WARP_N;
    // Positions that the thread stages in every step, and its first vectors; the others are farther down.
#if LAST
    let known = known_around(vec4<u32>(position + thread / K_VEC8) + vec4<u32>(0u, FARTHER, 2u * FARTHER, 3u * FARTHER));
    let further = known;
#else
    let known = known_around(vec4<u32>(position + thread % (BLOCK_N / 8u) * 8u) + vec4<u32>(0u, 1u, 2u, 3u));
    let further = known_around(vec4<u32>(position + thread % (BLOCK_N / 8u) * 8u) + vec4<u32>(4u, 5u, 6u, 7u));
#endif
    let of_terms = thread / K_VEC8 * TERMS_ROW + thread % K_VEC8;
#if LAST
    let of_pixels = of_terms;
#else
    let of_pixels = thread / (BLOCK_N / 8u) * POSITIONS_ROW + thread % (BLOCK_N / 8u);
#endif
    #emit zero_row(0)
    #emit zero_row(1)
    #emit zero_row(2)
#if WARP_M == 64
    #emit zero_row(3)
#endif
    var next_kernels = kernels_of(group, channel, 0u, thread);
    var next_pixels = pixels_of(known, further, group, 0u, thread);

    #emit stage_next
    workgroupBarrier();
    #emit load(var a, var b, 0u, 0u)
    if 1u < STEPS {
        next_kernels = kernels_of(group, channel, 1u * BLOCK_K, thread);
        next_pixels = pixels_of(known, further, group, 1u * BLOCK_K, thread);
    }
    for (var t = 0u; t < STEPS; t++) {
        #emit load(let f, let g, 2u, 16u)
        #emit add_row(0, a, b)
        #emit add_row(1, a, b)
        #emit add_row(2, a, b)
#if WARP_M == 64
        #emit add_row(3, a, b)
#endif
        workgroupBarrier();
        if t + 1u < STEPS {
            #emit stage_next
        }
        if t + 2u < STEPS {
            next_kernels = kernels_of(group, channel, (t + 2u) * BLOCK_K, thread);
            next_pixels = pixels_of(known, further, group, (t + 2u) * BLOCK_K, thread);
        }
        #emit add_row(0, f, g)
        #emit add_row(1, f, g)
#if WARP_M == 64
        #emit add_row(2, f, g)
#endif
        workgroupBarrier();
        // After the last step, old matrices are loaded and not multiplied.
        #emit load(a, b, 0u, 0u)
#if WARP_M == 64
        #emit add_row(3, f, g)
#else
        #emit add_row(2, f, g)
#endif
    }

    let down = select(channel, position, LAST) + row;
    let across = select(position, channel, LAST) + col;
    let strip = subgroup * 16u * STRIP;
    #emit write_row(0, 0u)
    #emit write_row(1, 16u)
    #emit write_row(2, 32u)
#if WARP_M == 64
    #emit write_row(3, 48u)
#endif
}
