enable wgpu_cooperative_matrix;
// Convolution on matrix units: against `implicit`, a subgroup multiplies 16×16 matrices of f16 as a whole and sums in f32. The
// definition is in core/src/suite/workloads/conv2d. Cooperative matrices are an extension of native wgpu;
// shaders/src/matrix.rs spells them for browsers.
//
// With channels last a row is a position and a column an output channel, otherwise the other way round: so are the columns of a
// square neighbours in memory. Eight subgroups of 32 compute a tile of 128 × 128, each 64 rows of 32 columns. What `matmul/coopmat`
// says of names, and of T in the names of loads and stores, holds here. Without T kernels are taken as columns.

#import conv2d/finished
#import conv2d/gather

@group(0) @binding(2) var<storage, read_write> result: array<elem>;
#when BIAS @group(0) @binding(3) var<storage, read> bias: array<elem>;

// Vectors along the terms, in a staged row of them, and in one of positions.
const FOURS: u32 = DEPTH / 4u;
const TERMS_ROW: u32 = (DEPTH + PADDING) / 4u;
const POSITIONS_ROW: u32 = (TILE + PADDING) / 4u;

// Rows of terms, for each channel.
var<workgroup> kernels: array<vec4<f16>, TILE * TERMS_ROW>;
// The same for each position, or else rows of positions for each term.
#when LAST var<workgroup> pixels: array<vec4<f16>, TILE * TERMS_ROW>;
#when !LAST var<workgroup> pixels: array<vec4<f16>, DEPTH * POSITIONS_ROW>;
// One square for each subgroup: results pass through it to be finished, rounded, and clipped at the edges.
var<workgroup> squares: array<f32, 8u * 256u>;

fn stage_kernels(group: u32, first: u32, depth: u32, thread: u32) {
    for (var e = thread; e < TILE * FOURS; e += 256u) {
        kernels[e / FOURS * TERMS_ROW + e % FOURS] = terms_of_row(group, first + e / FOURS, depth + e % FOURS * 4u);
    }
}

// Four positions that a thread stages all along.
fn known_of(first: u32, thread: u32) -> Known {
    if LAST {
        return known_around(vec4<u32>(first + thread / FOURS) + vec4<u32>(0u, TILE / 4u, TILE / 2u, TILE / 4u * 3u));
    }
    return known_around(vec4<u32>(first + thread % (TILE / 4u) * 4u) + vec4<u32>(0u, 1u, 2u, 3u));
}

fn stage_pixels(known: Known, group: u32, depth: u32, thread: u32) {
    if LAST {
        let found = terms_of_each(known, group, depth + thread % FOURS * 4u);
        let at = thread / FOURS * TERMS_ROW + thread % FOURS;
        pixels[at] = found.x;
        pixels[at + TILE / 4u * TERMS_ROW] = found.y;
        pixels[at + TILE / 2u * TERMS_ROW] = found.z;
        pixels[at + TILE / 4u * 3u * TERMS_ROW] = found.w;
    } else {
        for (var e = thread; e < DEPTH * (TILE / 4u); e += 256u) {
            let d = e / (TILE / 4u);
            pixels[d * POSITIONS_ROW + e % (TILE / 4u)] = term_of_each(known, group, depth + d);
        }
    }
}

// Write the subgroup's square to rows and columns row .. row + 15 and col .. col + 15.
fn write_square(group: u32, row: u32, col: u32, square: u32, lane: u32) {
    workgroupBarrier();
    for (var e = lane; e < 256u; e += 32u) {
        let channel = select(row + e / 16u, col + e % 16u, LAST);
        let position = select(col + e % 16u, row + e / 16u, LAST);
        if channel < TO_C && position < POSITIONS {
            let sum = finished(group * TO_C + channel, squares[square + e]);
            result[result_at(group, channel, position / TO, position % TO)] = f16(sum);
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(256)
fn conv2d_coopmat(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
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
    let known = known_of(position, thread);
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

    for (var depth = 0u; depth < TERMS; depth += DEPTH) {
        workgroupBarrier();
        stage_kernels(group, channel, depth, thread);
        stage_pixels(known, group, depth, thread);
        workgroupBarrier();
        for (var d = 0u; d < DEPTH / 16u; d++) {
#when LAST             let a0 = coopLoadT<coop_mat16x16<f16, A>>(&pixels[(row + 0u) * TERMS_ROW + d * 4u], TERMS_ROW);
#when LAST             let a1 = coopLoadT<coop_mat16x16<f16, A>>(&pixels[(row + 16u) * TERMS_ROW + d * 4u], TERMS_ROW);
#when LAST             let a2 = coopLoadT<coop_mat16x16<f16, A>>(&pixels[(row + 32u) * TERMS_ROW + d * 4u], TERMS_ROW);
#when LAST             let a3 = coopLoadT<coop_mat16x16<f16, A>>(&pixels[(row + 48u) * TERMS_ROW + d * 4u], TERMS_ROW);
#when LAST             let b0 = coopLoad<coop_mat16x16<f16, B>>(&kernels[(col + 0u) * TERMS_ROW + d * 4u], TERMS_ROW);
#when LAST             let b1 = coopLoad<coop_mat16x16<f16, B>>(&kernels[(col + 16u) * TERMS_ROW + d * 4u], TERMS_ROW);
#when !LAST             let a0 = coopLoadT<coop_mat16x16<f16, A>>(&kernels[(row + 0u) * TERMS_ROW + d * 4u], TERMS_ROW);
#when !LAST             let a1 = coopLoadT<coop_mat16x16<f16, A>>(&kernels[(row + 16u) * TERMS_ROW + d * 4u], TERMS_ROW);
#when !LAST             let a2 = coopLoadT<coop_mat16x16<f16, A>>(&kernels[(row + 32u) * TERMS_ROW + d * 4u], TERMS_ROW);
#when !LAST             let a3 = coopLoadT<coop_mat16x16<f16, A>>(&kernels[(row + 48u) * TERMS_ROW + d * 4u], TERMS_ROW);
#when !LAST             let b0 = coopLoadT<coop_mat16x16<f16, B>>(&pixels[d * 16u * POSITIONS_ROW + (col + 0u) / 4u], POSITIONS_ROW);
#when !LAST             let b1 = coopLoadT<coop_mat16x16<f16, B>>(&pixels[d * 16u * POSITIONS_ROW + (col + 16u) / 4u], POSITIONS_ROW);
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

    let down = select(channel, position, LAST) + row;
    let across = select(position, channel, LAST) + col;
    let square = subgroup * 256u;
    coopStoreT(c00, &squares[square], 16u);
    write_square(group, down + 0u, across + 0u, square, lane);
    coopStoreT(c01, &squares[square], 16u);
    write_square(group, down + 0u, across + 16u, square, lane);
    coopStoreT(c10, &squares[square], 16u);
    write_square(group, down + 16u, across + 0u, square, lane);
    coopStoreT(c11, &squares[square], 16u);
    write_square(group, down + 16u, across + 16u, square, lane);
    coopStoreT(c20, &squares[square], 16u);
    write_square(group, down + 32u, across + 0u, square, lane);
    coopStoreT(c21, &squares[square], 16u);
    write_square(group, down + 32u, across + 16u, square, lane);
    coopStoreT(c30, &squares[square], 16u);
    write_square(group, down + 48u, across + 0u, square, lane);
    coopStoreT(c31, &squares[square], 16u);
    write_square(group, down + 48u, across + 16u, square, lane);
}
