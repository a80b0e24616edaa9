// Convolution as a product of kernels with pixels, by tiles: what is staged. A row is a channel of the result, a column a position
// of it, a term a channel of the source at a tap: the matrix of pixels is never stored, each is gathered as it is staged. What
// becomes of sums is said by the text that imports this (`put_square`: see conv2d/tile).

#import conv2d/common
#import conv2d/tile

@group(0) @binding(0) var<storage, read> source: array<vec4<elem>>;
@group(0) @binding(1) var<storage, read> w: array<vec4<elem>>;

const TERMS: u32 = FROM_C * TAPS;
const COLUMNS: u32 = IMAGES * TO;
const FOURS: u32 = DEPTH / 4u;
// Channels, which are rows, are neighbours where they come last.
const ROWS_TOGETHER: bool = LAST;
// Neighbouring terms are neighbouring channels of the source, four to a vector.
const VECTORS: bool = LAST && FROM_C % 4u == 0u;

// What a thread stages is of the same four positions all along: their images, and the coordinates under the first tap.
struct Known {
    image: vec4<u32>,
    z: vec4<u32>,
    y: vec4<u32>,
    x: vec4<u32>,
}

// Positions of the source under a tap, and which of them are there.
struct Under {
    at: vec4<u32>,
    there: vec4<bool>,
}

fn column_of(slot: u32, i: u32) -> u32 {
    return slot + i * RIGHT;
}

fn known_of(group: u32, first: vec2<u32>, lane: u32) -> Known {
    var known: Known;
    var slot = lane % RIGHT;
    if VECTORS {
        slot = lane / FOURS;
    }
    for (var i = 0u; i < 4u; i++) {
        let column = first.y + column_of(slot, i);
        let at = first_under(column % TO);
        known.image[i] = column / TO;
        known.z[i] = at.x;
        known.y[i] = at.y;
        known.x[i] = at.z;
    }
    return known;
}

fn under(known: Known, tap: u32) -> Under {
    let by = tap_at(tap) * DILATION;
    var z = known.z;
    var y = known.y;
    var x = known.x;
    var there = vec4<bool>(true);
    if BACK {
        z -= vec4<u32>(by.x);
        y -= vec4<u32>(by.y);
        x -= vec4<u32>(by.z);
        let stride = vec4<u32>(STRIDE);
        there = (z % stride + y % stride + x % stride) == vec4<u32>();
        z /= stride;
        y /= stride;
        x /= stride;
    } else {
        z += vec4<u32>(by.x);
        y += vec4<u32>(by.y);
        x += vec4<u32>(by.z);
    }
    there = there & (known.image < vec4<u32>(IMAGES)) & (z < vec4<u32>(FROM_D)) & (y < vec4<u32>(FROM_H)) & (x < vec4<u32>(FROM_W));
    return Under((z * FROM_H + y) * FROM_W + x, there);
}

fn four(group: u32, channel: u32, image: u32, position: u32, there: bool) -> vec4<f32> {
    if !there {
        return vec4<f32>();
    }
    return vec4<f32>(source[source_at(group, channel, image, position) / 4u]);
}

fn one(group: u32, channel: u32, image: u32, position: u32, there: bool) -> f32 {
    if !there {
        return 0.0;
    }
    let at = source_at(group, channel, image, position);
    return f32(source[at / 4u][at % 4u]);
}

fn stage_right(known: Known, group: u32, column: u32, depth: u32, to: u32, lane: u32) {
    if VECTORS {
        if lane < RIGHT * FOURS {
            let slot = lane / FOURS;
            let d = lane % FOURS * 4u;
            var block = mat4x4<f32>();
            if depth + d < to {
                let channel = (depth + d) % FROM_C;
                let found = under(known, (depth + d) / FROM_C);
                block = transpose(mat4x4<f32>(
                    four(group, channel, known.image.x, found.at.x, found.there.x),
                    four(group, channel, known.image.y, found.at.y, found.there.y),
                    four(group, channel, known.image.z, found.at.z, found.there.z),
                    four(group, channel, known.image.w, found.at.w, found.there.w),
                ));
            }
            right_tile[d * RIGHT + slot] = block[0];
            right_tile[(d + 1u) * RIGHT + slot] = block[1];
            right_tile[(d + 2u) * RIGHT + slot] = block[2];
            right_tile[(d + 3u) * RIGHT + slot] = block[3];
        }
    } else {
        for (var e = lane; e < RIGHT * DEPTH; e += 256u) {
            let term = depth + e / RIGHT;
            var pixels = vec4<f32>();
            if term < to {
                var channel = term / TAPS;
                var tap = term % TAPS;
                if LAST {
                    channel = term % FROM_C;
                    tap = term / FROM_C;
                }
                let found = under(known, tap);
                pixels = vec4<f32>(
                    one(group, channel, known.image.x, found.at.x, found.there.x),
                    one(group, channel, known.image.y, found.at.y, found.there.y),
                    one(group, channel, known.image.z, found.at.z, found.there.z),
                    one(group, channel, known.image.w, found.at.w, found.there.w),
                );
            }
            right_tile[e] = pixels;
        }
    }
}

// Four neighbouring terms of a row, whose number is a multiple of four.
fn four_of_row(group: u32, row: u32, term: u32) -> vec4<f32> {
    if row >= TO_C {
        return vec4<f32>();
    }
    return vec4<f32>(w[((group * TO_C + row) * TERMS + term) / 4u]);
}

fn weight(group: u32, row: u32, term: u32) -> f32 {
    if row >= TO_C {
        return 0.0;
    }
    var other = term / TAPS;
    var tap = term % TAPS;
    if LAST {
        other = term % FROM_C;
        tap = term / FROM_C;
    }
    let at = weight_at(group, row, other, tap);
    return f32(w[at / 4u][at % 4u]);
}

fn stage_left(group: u32, row: u32, depth: u32, to: u32, lane: u32) {
    if !BACK && TERMS % 4u == 0u {
        // Terms of a row lie one after the other.
        for (var e = lane; e < LEFT * FOURS; e += 256u) {
            let slot = e / FOURS;
            let d = e % FOURS * 4u;
            var block = mat4x4<f32>();
            if depth + d < to {
                block = transpose(mat4x4<f32>(
                    four_of_row(group, row + slot * 4u, depth + d),
                    four_of_row(group, row + slot * 4u + 1u, depth + d),
                    four_of_row(group, row + slot * 4u + 2u, depth + d),
                    four_of_row(group, row + slot * 4u + 3u, depth + d),
                ));
            }
            left_tile[d * LEFT + slot] = block[0];
            left_tile[(d + 1u) * LEFT + slot] = block[1];
            left_tile[(d + 2u) * LEFT + slot] = block[2];
            left_tile[(d + 3u) * LEFT + slot] = block[3];
        }
    } else if BACK && LAST && TO_C % 4u == 0u {
        // Rows of a term lie one after the other.
        for (var e = lane; e < LEFT * DEPTH; e += 256u) {
            let term = depth + e / LEFT;
            let first = row + e % LEFT * 4u;
            var rows = vec4<f32>();
            if term < to && first < TO_C {
                rows = vec4<f32>(w[weight_at(group, first, term % FROM_C, term / FROM_C) / 4u]);
            }
            left_tile[e] = rows;
        }
    } else {
        for (var e = lane; e < LEFT * DEPTH; e += 256u) {
            let term = depth + e % DEPTH;
            let first = row + e / DEPTH * 4u;
            var rows = vec4<f32>();
            if term < to {
                rows = vec4<f32>(
                    weight(group, first, term),
                    weight(group, first + 1u, term),
                    weight(group, first + 2u, term),
                    weight(group, first + 3u, term),
                );
            }
            left_tile[e % DEPTH * LEFT + e / DEPTH] = rows;
        }
    }
}

// The tile of a workgroup: its group, its first row and its first column. Workgroups that run together share positions, then
// kernels.
fn tile_of(index: u32) -> vec3<u32> {
    let down = (TO_C + TILE_ROWS - 1u) / TILE_ROWS;
    let across = (COLUMNS + TILE_COLUMNS - 1u) / TILE_COLUMNS;
    return vec3<u32>(index / (down * across), index % down * TILE_ROWS, index / down % across * TILE_COLUMNS);
}
