// Gradient of the filters: implicit GEMM of the result's gradient and gathered pixels. A row is an output channel, a column a
// weight of it, and a term an image and a position. Workgroups take parts of the terms, and leave their sums to be added. The
// definition is in core/workloads/src/ops/conv2d/backward.rs.

#import conv2d/common
#import conv2d/tile
#import lib/launch

@group(0) @binding(0) var<storage, read> source: array<vec4<elem>>;
@group(0) @binding(1) var<storage, read> gradient: array<vec4<elem>>;
@group(0) @binding(2) var<storage, read_write> parts: array<f32>;

const COLUMNS: u32 = FROM_C * TAPS;
const TERMS: u32 = IMAGES * TO;
const K_VEC4: u32 = BLOCK_K / 4u;
const ROWS_TOGETHER: bool = false;
// Neighbouring weights belong to neighbouring channels, four per vector.
const VECTORS: bool = LAST && FROM_C % 4u == 0u;

// Parts and groups are counted together: groups are contiguous in each part.

// The thread stages the same four weights in every step: their channels, and distances of their taps from the first.
struct Known {
    channel: vec4<u32>,
    z: vec4<u32>,
    y: vec4<u32>,
    x: vec4<u32>,
}

fn column_of(slot: u32, i: u32) -> u32 {
    if VECTORS {
        return slot * 4u + i;
    }
    return slot + i * N_VEC4;
}

fn known_of(counted: u32, first: vec2<u32>, lane: u32) -> Known {
    var known: Known;
    for (var i = 0u; i < 4u; i++) {
        let column = first.y + column_of(lane % N_VEC4, i);
        var channel = column / TAPS;
        var tap = column % TAPS;
        if LAST {
            channel = column % FROM_C;
            tap = column / FROM_C;
        }
        let by = tap_at(tap) * DILATION;
        // Channels past the last weight do not exist.
        known.channel[i] = select(FROM_C, channel, column < COLUMNS);
        known.z[i] = by.x;
        known.y[i] = by.y;
        known.x[i] = by.z;
    }
    return known;
}

fn pixel(group: u32, channel: u32, image: u32, z: u32, y: u32, x: u32) -> f32 {
    if channel >= FROM_C || z >= FROM_D || y >= FROM_H || x >= FROM_W {
        return 0.0;
    }
    let at = source_at(group, channel, image, (z * FROM_H + y) * FROM_W + x);
    return f32(source[at / 4u][at % 4u]);
}

fn stage_right(known: Known, counted: u32, column: u32, depth: u32, end: u32, lane: u32) {
    let group = counted % GROUPS;
    for (var e = lane; e < N_VEC4 * BLOCK_K; e += 256u) {
        let term = depth + e / N_VEC4;
        var pixels = vec4<f32>();
        if term < end {
            let image = term / TO;
            let first = first_under(term % TO);
            let z = known.z + vec4<u32>(first.x);
            let y = known.y + vec4<u32>(first.y);
            let x = known.x + vec4<u32>(first.z);
            if VECTORS {
                if known.channel.x < FROM_C && z.x < FROM_D && y.x < FROM_H && x.x < FROM_W {
                    let at = source_at(group, known.channel.x, image, (z.x * FROM_H + y.x) * FROM_W + x.x);
                    pixels = vec4<f32>(source[at / 4u]);
                }
            } else {
                pixels = vec4<f32>(
                    pixel(group, known.channel.x, image, z.x, y.x, x.x),
                    pixel(group, known.channel.y, image, z.y, y.y, x.y),
                    pixel(group, known.channel.z, image, z.z, y.z, x.z),
                    pixel(group, known.channel.w, image, z.w, y.w, x.w),
                );
            }
        }
        right_tile[e / N_VEC4][e % N_VEC4] = pixels;
    }
}

fn of_row(group: u32, row: u32, term: u32) -> f32 {
    if row >= TO_C {
        return 0.0;
    }
    let at = result_at(group, row, term / TO, term % TO);
    return f32(gradient[at / 4u][at % 4u]);
}

// Four neighbouring terms of a row, all in one image.
fn vec4_of_row(group: u32, row: u32, term: u32) -> vec4<f32> {
    if row >= TO_C {
        return vec4<f32>();
    }
    return vec4<f32>(gradient[result_at(group, row, term / TO, term % TO) / 4u]);
}

fn stage_left(counted: u32, row: u32, depth: u32, end: u32, lane: u32) {
    let group = counted % GROUPS;
    if !LAST && TO % 4u == 0u {
        for (var e = lane; e < M_VEC4 * K_VEC4; e += 256u) {
            let slot = e / K_VEC4;
            let d = e % K_VEC4 * 4u;
            var block = mat4x4<f32>();
            if depth + d < end {
                block = transpose(mat4x4<f32>(
                    vec4_of_row(group, row + slot * 4u, depth + d),
                    vec4_of_row(group, row + slot * 4u + 1u, depth + d),
                    vec4_of_row(group, row + slot * 4u + 2u, depth + d),
                    vec4_of_row(group, row + slot * 4u + 3u, depth + d),
                ));
            }
            left_tile[d][slot] = block[0];
            left_tile[d + 1u][slot] = block[1];
            left_tile[d + 2u][slot] = block[2];
            left_tile[d + 3u][slot] = block[3];
        }
    } else {
        for (var e = lane; e < M_VEC4 * BLOCK_K; e += 256u) {
            let term = depth + e / M_VEC4;
            let first = row + e % M_VEC4 * 4u;
            var rows = vec4<f32>();
            if term < end {
                if LAST && TO_C % 4u == 0u {
                    if first < TO_C {
                        rows = vec4<f32>(gradient[result_at(group, first, term / TO, term % TO) / 4u]);
                    }
                } else {
                    rows = vec4<f32>(
                        of_row(group, first, term),
                        of_row(group, first + 1u, term),
                        of_row(group, first + 2u, term),
                        of_row(group, first + 3u, term),
                    );
                }
            }
            left_tile[e / M_VEC4][e % M_VEC4] = rows;
        }
    }
}

// Four rows of one column; `place` is that of the first weight of its group in its part.
fn store_column(place: u32, row: u32, column: u32, sums: vec4<f32>) {
    if column >= COLUMNS {
        return;
    }
    let at = place + row * COLUMNS + column;
    if row < TO_C { parts[at] = sums.x; }
    if row + 1u < TO_C { parts[at + COLUMNS] = sums.y; }
    if row + 2u < TO_C { parts[at + 2u * COLUMNS] = sums.z; }
    if row + 3u < TO_C { parts[at + 3u * COLUMNS] = sums.w; }
}

fn store_tile(counted: u32, row: u32, column: u32, slot: u32, tile: mat4x4<f32>) {
    let place = counted * (TO_C * COLUMNS);
    store_column(place, row, column + column_of(slot, 0u), tile[0]);
    store_column(place, row, column + column_of(slot, 1u), tile[1]);
    store_column(place, row, column + column_of(slot, 2u), tile[2]);
    store_column(place, row, column + column_of(slot, 3u), tile[3]);
}

@compute @workgroup_size(256)
fn conv2d_weights(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Workgroups that run together share positions.
    let down = (TO_C + BLOCK_M - 1u) / BLOCK_M;
    let across = (COLUMNS + BLOCK_N - 1u) / BLOCK_N;
    let index = flat_group(workgroup, workgroups);
    let counted = index / (down * across);
    if counted >= GROUPS * PARTS {
        return;
    }
    let first = vec2<u32>(index % down * BLOCK_M, index / down % across * BLOCK_N);
    let begin = counted / GROUPS * PART;
    tile_product(counted, first, begin, min(begin + PART, TERMS), lane);
}
