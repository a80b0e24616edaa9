enable wgpu_cooperative_matrix;
// Implicit GEMM on matrix units: a subgroup multiplies 16×16 matrices of f16 and sums in f32. The definition is in
// core/workloads/src/ops/conv2d. Cooperative matrices are an extension of native wgpu; shaders/src/matrix.rs translates them for
// browsers.
//
// With channels last, a row is a position and a column an output channel; otherwise the reverse. Columns of a matrix are then
// neighbours in memory. Four subgroups of 32 compute a tile of 128 × 128, each 64 rows of 64 columns. The next vectors are in
// flight while staged ones are multiplied. Names and loops follow `lib/product_coopmat`. Without T in the name of a load, filters
// are loaded by columns.
//
// Measurements: docs/notebook/2026-11-28-kernel-notes.md.

#import conv2d/f16x8

// Vectors of eight along the terms, per staged row of terms, and per staged row of positions. A vector of padding per row avoids
// bank conflicts.
const K_VEC8: u32 = BLOCK_K / 8u;
const TERMS_ROW: u32 = K_VEC8 + 1u;
const POSITIONS_ROW: u32 = BLOCK_MN / 8u + 1u;
// Staged rows of terms between a thread's vectors, and rows of positions.
const FARTHER: u32 = 128u / K_VEC8;
const BELOW: u32 = 128u / (BLOCK_MN / 8u);
// Distance between a thread's staged vectors of pixels.
const NEXT_PIXELS: u32 = select(BELOW * POSITIONS_ROW, FARTHER * TERMS_ROW, LAST);
const STEPS: u32 = (TERMS + BLOCK_K - 1u) / BLOCK_K;
// Vectors from one row of a strip to the next.
const STRIP: u32 = 9u;

// Rows of terms, per channel.
var<workgroup> kernels: array<Piece, BLOCK_MN * TERMS_ROW * PIECES>;
// Rows of terms per position, or rows of positions per term.
#if LAST
var<workgroup> pixels: array<Piece, BLOCK_MN * TERMS_ROW * PIECES>;
#else
var<workgroup> pixels: array<Piece, BLOCK_K * POSITIONS_ROW * PIECES>;
#endif
// A strip of two 16×16 tiles per subgroup. Results pass through it for the epilogue, rounding, and bounds.
var<workgroup> strips: array<vec4<f32>, 4u * 16u * STRIP>;

// Four rows of pixels that a thread stages, or four terms of its eight positions.
fn pixels_of(known: Known, further: Known, group: u32, depth: u32, thread: u32) -> Block {
    if LAST {
        return terms_of_each(known, group, depth + thread % K_VEC8 * 8u);
    }
    let term = depth + thread / (BLOCK_MN / 8u);
    return Block(
        term_of_8(known, further, group, term),
        term_of_8(known, further, group, term + BELOW),
        term_of_8(known, further, group, term + 2u * BELOW),
        term_of_8(known, further, group, term + 3u * BELOW),
    );
}

// Four rows of filters that a thread stages.
fn kernels_of(group: u32, first: u32, depth: u32, thread: u32) -> Block {
    let row = first + thread / K_VEC8;
    let term = depth + thread % K_VEC8 * 8u;
    return Block(
        terms_of_row(group, row, term),
        terms_of_row(group, row + FARTHER, term),
        terms_of_row(group, row + 2u * FARTHER, term),
        terms_of_row(group, row + 3u * FARTHER, term),
    );
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
    var c{I}2 = coop_mat16x16<f32, C>();
    var c{I}3 = coop_mat16x16<f32, C>();
#end

// Stores a row of accumulators, in two strips, from row AT of the subgroup.
#block write_row(I, AT)
    coopStoreT(c{I}0, &strips[strip], STRIP);
    coopStoreT(c{I}1, &strips[strip + 4u], STRIP);
    write_strip(group, down + AT, across + 0u, strip, lane);
    coopStoreT(c{I}2, &strips[strip], STRIP);
    coopStoreT(c{I}3, &strips[strip + 4u], STRIP);
    write_strip(group, down + AT, across + 32u, strip, lane);
#end

// Adds a row of products of matrices to the accumulators.
#block add_row(ROW, I, J, K, L, LEFT)
    c{ROW}0 = coopMultiplyAdd(a{LEFT}, b{I}, c{ROW}0);
    c{ROW}1 = coopMultiplyAdd(a{LEFT}, b{J}, c{ROW}1);
    c{ROW}2 = coopMultiplyAdd(a{LEFT}, b{K}, c{ROW}2);
    c{ROW}3 = coopMultiplyAdd(a{LEFT}, b{L}, c{ROW}3);
#end

// Half a step, in the matrices I to L. TERM is its first term, and VEC8 the same in vectors.
#block add_half(I, J, K, L, VEC8, TERM)
#if LAST
    let a{I} = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + 0u) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
    let a{J} = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + 16u) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
    let a{K} = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + 32u) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
    let a{L} = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + 48u) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
    let b{I} = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + 0u) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
    let b{J} = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + 16u) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
    let b{K} = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + 32u) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
    let b{L} = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + 48u) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
#else
    let a{I} = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + 0u) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
    let a{J} = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + 16u) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
    let a{K} = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + 32u) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
    let a{L} = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + 48u) * TERMS_ROW + VEC8) * PIECES], TERMS_ROW * PIECES);
    let b{I} = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(TERM * POSITIONS_ROW + col / 8u + 0u) * PIECES], POSITIONS_ROW * PIECES);
    let b{J} = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(TERM * POSITIONS_ROW + col / 8u + 2u) * PIECES], POSITIONS_ROW * PIECES);
    let b{K} = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(TERM * POSITIONS_ROW + col / 8u + 4u) * PIECES], POSITIONS_ROW * PIECES);
    let b{L} = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(TERM * POSITIONS_ROW + col / 8u + 6u) * PIECES], POSITIONS_ROW * PIECES);
#endif
    #emit add_row(0, I, J, K, L, I)
    #emit add_row(1, I, J, K, L, J)
    #emit add_row(2, I, J, K, L, K)
    #emit add_row(3, I, J, K, L, L)
#end

@compute @workgroup_size(128)
fn conv2d_coopmat(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    // Workgroups that run together share positions, then filters.
    let over_channels = (TO_C + BLOCK_MN - 1u) / BLOCK_MN;
    let over_positions = (POSITIONS + BLOCK_MN - 1u) / BLOCK_MN;
    // Without flat_group: the validator assumes that a call's result may differ within a workgroup.
    let index = workgroup.y * workgroups.x + workgroup.x;
    let group = index / (over_channels * over_positions);
    if group >= GROUPS {
        return;
    }
    let channel = index % over_channels * BLOCK_MN;
    let position = index / over_channels % over_positions * BLOCK_MN;
    let subgroup = thread / 32u;
    let lane = thread % 32u;
    let row = subgroup / 2u * 64u;
    let col = subgroup % 2u * 64u;
    // Positions that the thread stages in every step, and its first vectors; the others are farther down.
#if LAST
    let known = known_around(vec4<u32>(position + thread / K_VEC8) + vec4<u32>(0u, FARTHER, 2u * FARTHER, 3u * FARTHER));
    let further = known;
#else
    let known = known_around(vec4<u32>(position + thread % (BLOCK_MN / 8u) * 8u) + vec4<u32>(0u, 1u, 2u, 3u));
    let further = known_around(vec4<u32>(position + thread % (BLOCK_MN / 8u) * 8u) + vec4<u32>(4u, 5u, 6u, 7u));
#endif
    let of_terms = thread / K_VEC8 * TERMS_ROW + thread % K_VEC8;
#if LAST
    let of_pixels = of_terms;
#else
    let of_pixels = thread / (BLOCK_MN / 8u) * POSITIONS_ROW + thread % (BLOCK_MN / 8u);
#endif
    #emit zero_row(0)
    #emit zero_row(1)
    #emit zero_row(2)
    #emit zero_row(3)
    var next_kernels = kernels_of(group, channel, 0u, thread);
    var next_pixels = pixels_of(known, further, group, 0u, thread);

    for (var t = 0u; t < STEPS; t++) {
        workgroupBarrier();
        #emit store(kernels, of_terms + 0u * FARTHER * TERMS_ROW, next_kernels.x)
        #emit store(kernels, of_terms + 1u * FARTHER * TERMS_ROW, next_kernels.y)
        #emit store(kernels, of_terms + 2u * FARTHER * TERMS_ROW, next_kernels.z)
        #emit store(kernels, of_terms + 3u * FARTHER * TERMS_ROW, next_kernels.w)
        #emit store(pixels, of_pixels + 0u * NEXT_PIXELS, next_pixels.x)
        #emit store(pixels, of_pixels + 1u * NEXT_PIXELS, next_pixels.y)
        #emit store(pixels, of_pixels + 2u * NEXT_PIXELS, next_pixels.z)
        #emit store(pixels, of_pixels + 3u * NEXT_PIXELS, next_pixels.w)
        workgroupBarrier();
        if t + 1u < STEPS {
            next_kernels = kernels_of(group, channel, (t + 1u) * BLOCK_K, thread);
            next_pixels = pixels_of(known, further, group, (t + 1u) * BLOCK_K, thread);
        }
        #emit add_half(0, 1, 2, 3, 0u, 0u)
        #emit add_half(4, 5, 6, 7, 2u, 16u)
    }

    let down = select(channel, position, LAST) + row;
    let across = select(position, channel, LAST) + col;
    let strip = subgroup * 16u * STRIP;
    #emit write_row(0, 0u)
    #emit write_row(1, 16u)
    #emit write_row(2, 32u)
    #emit write_row(3, 48u)
}
