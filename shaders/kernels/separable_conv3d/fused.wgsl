// Separable convolution in one stage: GEMM of the pointwise weights and depthwise results, which are computed as they are staged
// and never stored. A row is an output channel, a column a position of the result, and a term a channel of the image. The
// definition is in core/workloads/src/ops/separable_conv3d.

#import conv2d/epilogue
#import conv2d/tile
#import lib/launch

@group(0) @binding(0) var<storage, read> x: array<vec4<elem>>;
@group(0) @binding(1) var<storage, read> w: array<vec4<elem>>;
@group(0) @binding(2) var<storage, read> pointwise: array<vec4<elem>>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
#if BIAS
@group(0) @binding(4) var<storage, read> bias: array<elem>;
#endif

const TAPS: u32 = KD * KH * KW;
const TO: u32 = OD * OH * OW;
const COLUMNS: u32 = N * TO;
const K_VEC4: u32 = BLOCK_K / 4u;
// Output channels, which are rows, are neighbours where they come last.
const ROWS_TOGETHER: bool = CHANNELS_LAST;
// Neighbouring terms are neighbouring channels of the image, four per vector.
const VECTORS: bool = CHANNELS_LAST && C % 4u == 0u;

// The thread stages the same four positions in every step: their images, and the coordinates under the first tap. Coordinates
// before the image wrap around and exceed its extent.
struct Known {
    image: vec4<u32>,
    z: vec4<u32>,
    y: vec4<u32>,
    x: vec4<u32>,
}

fn column_of(slot: u32, i: u32) -> u32 {
    return slot + i * N_VEC4;
}

fn known_of(group: u32, first: vec2<u32>, lane: u32) -> Known {
    let slot = select(lane % N_VEC4, lane / K_VEC4, VECTORS);
    let column = vec4<u32>(first.y + slot) + vec4<u32>(0u, 1u, 2u, 3u) * N_VEC4;
    let position = column % TO;
    return Known(
        column / TO,
        position / (OH * OW) * SD - PD,
        position / OW % OH * SH - PH,
        position % OW * SW - PW,
    );
}

// Elements of the image before the rows under a tap, and whether these exist.
struct Rows {
    start: vec4<u32>,
    there: vec4<bool>,
}

// Four channels from `c` on, or the plane of channel `c`.
fn rows_under(known: Known, c: u32, i: u32, j: u32) -> Rows {
    let z = known.z + i * LD;
    let y = known.y + j * LH;
    let there = (known.image < vec4<u32>(N)) & (z < vec4<u32>(ID)) & (y < vec4<u32>(IH));
    if CHANNELS_LAST {
        return Rows(((known.image * ID + z) * IH + y) * IW, there);
    }
    return Rows((((known.image * C + c) * ID + z) * IH + y) * IW, there);
}

fn load_vec4(position: u32, c: u32, there: bool) -> vec4<f32> {
    if !there {
        return vec4<f32>();
    }
    return vec4<f32>(x[(position * C + c) / 4u]);
}

// Depthwise results of four channels at the four positions, a position per vector.
fn four_channels(known: Known, c: u32) -> mat4x4<f32> {
    var sums = mat4x4<f32>();
    for (var i = 0u; i < KD; i++) {
        for (var j = 0u; j < KH; j++) {
            let rows = rows_under(known, c, i, j);
            for (var k = 0u; k < KW; k++) {
                let at = known.x + k * LW;
                let there = rows.there & (at < vec4<u32>(IW));
                let position = rows.start + at;
                let weights = vec4<f32>(w[(((i * KH + j) * KW + k) * C + c) / 4u]);
                sums[0] = fma(load_vec4(position.x, c, there.x), weights, sums[0]);
                sums[1] = fma(load_vec4(position.y, c, there.y), weights, sums[1]);
                sums[2] = fma(load_vec4(position.z, c, there.z), weights, sums[2]);
                sums[3] = fma(load_vec4(position.w, c, there.w), weights, sums[3]);
            }
        }
    }
    return sums;
}

fn single(position: u32, c: u32, there: bool) -> f32 {
    if !there {
        return 0.0;
    }
    let at = select(position, position * C + c, CHANNELS_LAST);
    return f32(x[at / 4u][at % 4u]);
}

// Depthwise results of one channel at the four positions.
fn one_channel(known: Known, c: u32) -> vec4<f32> {
    var sums = vec4<f32>();
    for (var i = 0u; i < KD; i++) {
        for (var j = 0u; j < KH; j++) {
            let rows = rows_under(known, c, i, j);
            for (var k = 0u; k < KW; k++) {
                let at = known.x + k * LW;
                let there = rows.there & (at < vec4<u32>(IW));
                let position = rows.start + at;
                let tap = (i * KH + j) * KW + k;
                let weight_at = select(c * TAPS + tap, tap * C + c, CHANNELS_LAST);
                let pixels = vec4<f32>(
                    single(position.x, c, there.x),
                    single(position.y, c, there.y),
                    single(position.z, c, there.z),
                    single(position.w, c, there.w),
                );
                sums = fma(pixels, vec4<f32>(f32(w[weight_at / 4u][weight_at % 4u])), sums);
            }
        }
    }
    return sums;
}

fn stage_right(known: Known, group: u32, column: u32, depth: u32, to: u32, lane: u32) {
    if VECTORS {
        if lane < N_VEC4 * K_VEC4 {
            let slot = lane / K_VEC4;
            let d = lane % K_VEC4 * 4u;
            var block = mat4x4<f32>();
            if depth + d < to {
                block = transpose(four_channels(known, depth + d));
            }
            right_tile[d][slot] = block[0];
            right_tile[d + 1u][slot] = block[1];
            right_tile[d + 2u][slot] = block[2];
            right_tile[d + 3u][slot] = block[3];
        }
    } else {
        for (var e = lane; e < N_VEC4 * BLOCK_K; e += 256u) {
            let c = depth + e / N_VEC4;
            var results = vec4<f32>();
            if c < to {
                results = one_channel(known, c);
            }
            right_tile[e / N_VEC4][e % N_VEC4] = results;
        }
    }
}

// Four neighbouring weights of an output channel; `c` is a multiple of four.
fn vec4_of_row(row: u32, c: u32) -> vec4<f32> {
    if row >= M {
        return vec4<f32>();
    }
    return vec4<f32>(pointwise[(row * C + c) / 4u]);
}

fn weight(row: u32, c: u32) -> f32 {
    if row >= M {
        return 0.0;
    }
    let at = row * C + c;
    return f32(pointwise[at / 4u][at % 4u]);
}

fn stage_left(group: u32, row: u32, depth: u32, to: u32, lane: u32) {
    if C % 4u == 0u {
        for (var e = lane; e < M_VEC4 * K_VEC4; e += 256u) {
            let slot = e / K_VEC4;
            let d = e % K_VEC4 * 4u;
            let first = row + slot * 4u;
            var block = mat4x4<f32>();
            if depth + d < to {
                block = transpose(mat4x4<f32>(
                    vec4_of_row(first, depth + d),
                    vec4_of_row(first + 1u, depth + d),
                    vec4_of_row(first + 2u, depth + d),
                    vec4_of_row(first + 3u, depth + d),
                ));
            }
            left_tile[d][slot] = block[0];
            left_tile[d + 1u][slot] = block[1];
            left_tile[d + 2u][slot] = block[2];
            left_tile[d + 3u][slot] = block[3];
        }
    } else {
        for (var e = lane; e < M_VEC4 * BLOCK_K; e += 256u) {
            let c = depth + e % BLOCK_K;
            let first = row + e / BLOCK_K * 4u;
            var rows = vec4<f32>();
            if c < to {
                rows = vec4<f32>(weight(first, c), weight(first + 1u, c), weight(first + 2u, c), weight(first + 3u, c));
            }
            left_tile[e % BLOCK_K][e / BLOCK_K] = rows;
        }
    }
}

fn store_column(row: u32, column: u32, sums: vec4<f32>) {
    if column >= COLUMNS {
        return;
    }
    let at = select((column / TO * M + row) * TO + column % TO, column * M + row, CHANNELS_LAST);
    let apart = select(TO, 1u, CHANNELS_LAST);
    if row < M { out[at] = elem(epilogue(row, sums.x)); }
    if row + 1u < M { out[at + apart] = elem(epilogue(row + 1u, sums.y)); }
    if row + 2u < M { out[at + 2u * apart] = elem(epilogue(row + 2u, sums.z)); }
    if row + 3u < M { out[at + 3u * apart] = elem(epilogue(row + 3u, sums.w)); }
}

fn store_tile(group: u32, row: u32, column: u32, slot: u32, tile: mat4x4<f32>) {
    store_column(row, column + column_of(slot, 0u), tile[0]);
    store_column(row, column + column_of(slot, 1u), tile[1]);
    store_column(row, column + column_of(slot, 2u), tile[2]);
    store_column(row, column + column_of(slot, 3u), tile[3]);
}

@compute @workgroup_size(256)
fn separable_conv3d_fused(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Workgroups that run together share positions.
    let down = (M + BLOCK_M - 1u) / BLOCK_M;
    let across = (COLUMNS + BLOCK_N - 1u) / BLOCK_N;
    let index = flat_group(workgroup, workgroups);
    if index >= down * across {
        return;
    }
    tile_product(0u, vec2<u32>(index % down * BLOCK_M, index / down * BLOCK_N), 0u, C, lane);
}
