enable wgpu_cooperative_matrix;
// Convolution on matrix units: against `implicit`, a subgroup multiplies 16×16 matrices of f16 as a whole and sums in f32. The
// definition is in core/src/suite/workloads/conv2d. Cooperative matrices are an extension of native wgpu;
// shaders/src/matrix.rs spells them for browsers.
//
// With channels last a row is a position and a column an output channel, otherwise the other way round: so are the columns of a
// square neighbours in memory. Four subgroups of 32 compute a tile of 128 × 128, each 64 rows of 64 columns, and the next eights are on
// their way while staged ones are multiplied. What `lib/product_coopmat` says of names and loops holds here. Without T in the name of a
// load kernels are taken as columns.
//
// By TFLOP/s on an H200 at 8×256→256×56² with channels last, natively and in Chromium: eight subgroups of 64 rows of 32 columns, staged by
// vectors of four, nothing on its way 111 and 63; as it is here 192 and 195.

#import conv2d/eights

// Eights along the terms, in a staged row of them, and in one of positions; rows are padded by one, so that neighbours start in different
// memory banks.
const EIGHTS: u32 = DEPTH / 8u;
const TERMS_ROW: u32 = EIGHTS + 1u;
const POSITIONS_ROW: u32 = TILE / 8u + 1u;
// Staged rows of terms from one of a thread's eights to its next, and of positions.
const FARTHER: u32 = 128u / EIGHTS;
const BELOW: u32 = 128u / (TILE / 8u);
// From where one of a thread's eights of pixels is staged to where its next is.
const NEXT_PIXELS: u32 = select(BELOW * POSITIONS_ROW, FARTHER * TERMS_ROW, LAST);
const STEPS: u32 = (TERMS + DEPTH - 1u) / DEPTH;
// Vectors from one row of a strip to the next.
const STRIP: u32 = 9u;

// Rows of terms, for each channel.
var<workgroup> kernels: array<Piece, TILE * TERMS_ROW * PIECES>;
// The same for each position, or else rows of positions for each term.
#if LAST
var<workgroup> pixels: array<Piece, TILE * TERMS_ROW * PIECES>;
#else
var<workgroup> pixels: array<Piece, DEPTH * POSITIONS_ROW * PIECES>;
#endif
// One strip of two squares for each subgroup: results pass through it to be finished, rounded, and clipped at the edges.
var<workgroup> strips: array<vec4<f32>, 4u * 16u * STRIP>;

// Four rows of pixels that a thread stages, or four terms of its eight positions.
fn pixels_of(known: Known, further: Known, group: u32, depth: u32, thread: u32) -> Block {
    if LAST {
        return terms_of_each(known, group, depth + thread % EIGHTS * 8u);
    }
    let term = depth + thread / (TILE / 8u);
    return Block(
        term_of_eight(known, further, group, term),
        term_of_eight(known, further, group, term + BELOW),
        term_of_eight(known, further, group, term + 2u * BELOW),
        term_of_eight(known, further, group, term + 3u * BELOW),
    );
}

// Four rows of kernels that a thread stages.
fn kernels_of(group: u32, first: u32, depth: u32, thread: u32) -> Block {
    let row = first + thread / EIGHTS;
    let term = depth + thread % EIGHTS * 8u;
    return Block(
        terms_of_row(group, row, term),
        terms_of_row(group, row + FARTHER, term),
        terms_of_row(group, row + 2u * FARTHER, term),
        terms_of_row(group, row + 3u * FARTHER, term),
    );
}

// Write the subgroup's strip to rows row .. row + 15 and columns col .. col + 31.
fn write_strip(group: u32, row: u32, col: u32, strip: u32, lane: u32) {
    workgroupBarrier();
    for (var i = 0u; i < 2u; i++) {
        let down = i * 8u + lane / 4u;
        let right = col + lane % 4u * 8u;
        let from_here = strip + down * STRIP + lane % 4u * 2u;
        put_eight(group, select(row + down, right, LAST), select(right, row + down, LAST), strips[from_here], strips[from_here + 1u]);
    }
    workgroupBarrier();
}

@compute @workgroup_size(128)
fn conv2d_coopmat(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    // Workgroups that run together share positions, then kernels.
    let over_channels = (TO_C + TILE - 1u) / TILE;
    let over_positions = (POSITIONS + TILE - 1u) / TILE;
    // Not by flat_group: the validator takes a call's result for one that may differ within a workgroup.
    let index = workgroup.y * workgroups.x + workgroup.x;
    let group = index / (over_channels * over_positions);
    if group >= GROUPS {
        return;
    }
    let channel = index % over_channels * TILE;
    let position = index / over_channels % over_positions * TILE;
    let subgroup = thread / 32u;
    let lane = thread % 32u;
    let row = subgroup / 2u * 64u;
    let col = subgroup % 2u * 64u;
    // Positions that the thread stages all along, and where its first eights lie; its others lie farther down.
#if LAST
    let known = known_around(vec4<u32>(position + thread / EIGHTS) + vec4<u32>(0u, FARTHER, 2u * FARTHER, 3u * FARTHER));
    let further = known;
#else
    let known = known_around(vec4<u32>(position + thread % (TILE / 8u) * 8u) + vec4<u32>(0u, 1u, 2u, 3u));
    let further = known_around(vec4<u32>(position + thread % (TILE / 8u) * 8u) + vec4<u32>(4u, 5u, 6u, 7u));
#endif
    let of_terms = thread / EIGHTS * TERMS_ROW + thread % EIGHTS;
#if LAST
    let of_pixels = of_terms;
#else
    let of_pixels = thread / (TILE / 8u) * POSITIONS_ROW + thread % (TILE / 8u);
#endif
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
    var next_kernels = kernels_of(group, channel, 0u, thread);
    var next_pixels = pixels_of(known, further, group, 0u, thread);

    for (var t = 0u; t < STEPS; t++) {
        workgroupBarrier();
#if IN_A_BROWSER
        kernels[of_terms + 0u * FARTHER * TERMS_ROW] = next_kernels.x;
        kernels[of_terms + 1u * FARTHER * TERMS_ROW] = next_kernels.y;
        kernels[of_terms + 2u * FARTHER * TERMS_ROW] = next_kernels.z;
        kernels[of_terms + 3u * FARTHER * TERMS_ROW] = next_kernels.w;
        pixels[of_pixels + 0u * NEXT_PIXELS] = next_pixels.x;
        pixels[of_pixels + 1u * NEXT_PIXELS] = next_pixels.y;
        pixels[of_pixels + 2u * NEXT_PIXELS] = next_pixels.z;
        pixels[of_pixels + 3u * NEXT_PIXELS] = next_pixels.w;
#else
        kernels[(of_terms + 0u * FARTHER * TERMS_ROW) * 2u] = low_of(next_kernels.x);
        kernels[(of_terms + 0u * FARTHER * TERMS_ROW) * 2u + 1u] = high_of(next_kernels.x);
        kernels[(of_terms + 1u * FARTHER * TERMS_ROW) * 2u] = low_of(next_kernels.y);
        kernels[(of_terms + 1u * FARTHER * TERMS_ROW) * 2u + 1u] = high_of(next_kernels.y);
        kernels[(of_terms + 2u * FARTHER * TERMS_ROW) * 2u] = low_of(next_kernels.z);
        kernels[(of_terms + 2u * FARTHER * TERMS_ROW) * 2u + 1u] = high_of(next_kernels.z);
        kernels[(of_terms + 3u * FARTHER * TERMS_ROW) * 2u] = low_of(next_kernels.w);
        kernels[(of_terms + 3u * FARTHER * TERMS_ROW) * 2u + 1u] = high_of(next_kernels.w);
        pixels[(of_pixels + 0u * NEXT_PIXELS) * 2u] = low_of(next_pixels.x);
        pixels[(of_pixels + 0u * NEXT_PIXELS) * 2u + 1u] = high_of(next_pixels.x);
        pixels[(of_pixels + 1u * NEXT_PIXELS) * 2u] = low_of(next_pixels.y);
        pixels[(of_pixels + 1u * NEXT_PIXELS) * 2u + 1u] = high_of(next_pixels.y);
        pixels[(of_pixels + 2u * NEXT_PIXELS) * 2u] = low_of(next_pixels.z);
        pixels[(of_pixels + 2u * NEXT_PIXELS) * 2u + 1u] = high_of(next_pixels.z);
        pixels[(of_pixels + 3u * NEXT_PIXELS) * 2u] = low_of(next_pixels.w);
        pixels[(of_pixels + 3u * NEXT_PIXELS) * 2u + 1u] = high_of(next_pixels.w);
#endif
        workgroupBarrier();
        if t + 1u < STEPS {
            next_kernels = kernels_of(group, channel, (t + 1u) * DEPTH, thread);
            next_pixels = pixels_of(known, further, group, (t + 1u) * DEPTH, thread);
        }
#if LAST
        let a0 = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + 0u) * TERMS_ROW + 0u) * PIECES], TERMS_ROW * PIECES);
        let a1 = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + 16u) * TERMS_ROW + 0u) * PIECES], TERMS_ROW * PIECES);
        let a2 = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + 32u) * TERMS_ROW + 0u) * PIECES], TERMS_ROW * PIECES);
        let a3 = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + 48u) * TERMS_ROW + 0u) * PIECES], TERMS_ROW * PIECES);
        let b0 = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + 0u) * TERMS_ROW + 0u) * PIECES], TERMS_ROW * PIECES);
        let b1 = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + 16u) * TERMS_ROW + 0u) * PIECES], TERMS_ROW * PIECES);
        let b2 = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + 32u) * TERMS_ROW + 0u) * PIECES], TERMS_ROW * PIECES);
        let b3 = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + 48u) * TERMS_ROW + 0u) * PIECES], TERMS_ROW * PIECES);
#else
        let a0 = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + 0u) * TERMS_ROW + 0u) * PIECES], TERMS_ROW * PIECES);
        let a1 = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + 16u) * TERMS_ROW + 0u) * PIECES], TERMS_ROW * PIECES);
        let a2 = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + 32u) * TERMS_ROW + 0u) * PIECES], TERMS_ROW * PIECES);
        let a3 = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + 48u) * TERMS_ROW + 0u) * PIECES], TERMS_ROW * PIECES);
        let b0 = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(0u * POSITIONS_ROW + col / 8u + 0u) * PIECES], POSITIONS_ROW * PIECES);
        let b1 = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(0u * POSITIONS_ROW + col / 8u + 2u) * PIECES], POSITIONS_ROW * PIECES);
        let b2 = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(0u * POSITIONS_ROW + col / 8u + 4u) * PIECES], POSITIONS_ROW * PIECES);
        let b3 = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(0u * POSITIONS_ROW + col / 8u + 6u) * PIECES], POSITIONS_ROW * PIECES);
#endif
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
#if LAST
        let a4 = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + 0u) * TERMS_ROW + 2u) * PIECES], TERMS_ROW * PIECES);
        let a5 = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + 16u) * TERMS_ROW + 2u) * PIECES], TERMS_ROW * PIECES);
        let a6 = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + 32u) * TERMS_ROW + 2u) * PIECES], TERMS_ROW * PIECES);
        let a7 = coopLoadT<coop_mat16x16<f16, A>>(&pixels[((row + 48u) * TERMS_ROW + 2u) * PIECES], TERMS_ROW * PIECES);
        let b4 = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + 0u) * TERMS_ROW + 2u) * PIECES], TERMS_ROW * PIECES);
        let b5 = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + 16u) * TERMS_ROW + 2u) * PIECES], TERMS_ROW * PIECES);
        let b6 = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + 32u) * TERMS_ROW + 2u) * PIECES], TERMS_ROW * PIECES);
        let b7 = coopLoad<coop_mat16x16<f16, B>>(&kernels[((col + 48u) * TERMS_ROW + 2u) * PIECES], TERMS_ROW * PIECES);
#else
        let a4 = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + 0u) * TERMS_ROW + 2u) * PIECES], TERMS_ROW * PIECES);
        let a5 = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + 16u) * TERMS_ROW + 2u) * PIECES], TERMS_ROW * PIECES);
        let a6 = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + 32u) * TERMS_ROW + 2u) * PIECES], TERMS_ROW * PIECES);
        let a7 = coopLoadT<coop_mat16x16<f16, A>>(&kernels[((row + 48u) * TERMS_ROW + 2u) * PIECES], TERMS_ROW * PIECES);
        let b4 = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(16u * POSITIONS_ROW + col / 8u + 0u) * PIECES], POSITIONS_ROW * PIECES);
        let b5 = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(16u * POSITIONS_ROW + col / 8u + 2u) * PIECES], POSITIONS_ROW * PIECES);
        let b6 = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(16u * POSITIONS_ROW + col / 8u + 4u) * PIECES], POSITIONS_ROW * PIECES);
        let b7 = coopLoadT<coop_mat16x16<f16, B>>(&pixels[(16u * POSITIONS_ROW + col / 8u + 6u) * PIECES], POSITIONS_ROW * PIECES);
#endif
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

    let down = select(channel, position, LAST) + row;
    let across = select(position, channel, LAST) + col;
    let strip = subgroup * 16u * STRIP;
    coopStoreT(c00, &strips[strip], STRIP);
    coopStoreT(c01, &strips[strip + 4u], STRIP);
    write_strip(group, down + 0u, across + 0u, strip, lane);
    coopStoreT(c02, &strips[strip], STRIP);
    coopStoreT(c03, &strips[strip + 4u], STRIP);
    write_strip(group, down + 0u, across + 32u, strip, lane);
    coopStoreT(c10, &strips[strip], STRIP);
    coopStoreT(c11, &strips[strip + 4u], STRIP);
    write_strip(group, down + 16u, across + 0u, strip, lane);
    coopStoreT(c12, &strips[strip], STRIP);
    coopStoreT(c13, &strips[strip + 4u], STRIP);
    write_strip(group, down + 16u, across + 32u, strip, lane);
    coopStoreT(c20, &strips[strip], STRIP);
    coopStoreT(c21, &strips[strip + 4u], STRIP);
    write_strip(group, down + 32u, across + 0u, strip, lane);
    coopStoreT(c22, &strips[strip], STRIP);
    coopStoreT(c23, &strips[strip + 4u], STRIP);
    write_strip(group, down + 32u, across + 32u, strip, lane);
    coopStoreT(c30, &strips[strip], STRIP);
    coopStoreT(c31, &strips[strip + 4u], STRIP);
    write_strip(group, down + 48u, across + 0u, strip, lane);
    coopStoreT(c32, &strips[strip], STRIP);
    coopStoreT(c33, &strips[strip + 4u], STRIP);
    write_strip(group, down + 48u, across + 32u, strip, lane);
}
