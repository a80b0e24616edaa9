// Convolution as a product of kernels with pixels, by tiles: what is staged. A row is a channel of the result, a column a position
// of it, a term a channel of the source at a tap: the matrix of pixels is never stored, each is gathered as it is staged. What
// becomes of sums is said by the text that imports this (`put_square`: see conv2d/tile).

#import conv2d/gather
#import conv2d/tile

const FOURS: u32 = DEPTH / 4u;
// Channels, which are rows, are neighbours where they come last.
const ROWS_TOGETHER: bool = LAST;

fn column_of(slot: u32, i: u32) -> u32 {
    return slot + i * RIGHT;
}

// What a thread stages is of the same four positions all along.
fn known_of(group: u32, first: vec2<u32>, lane: u32) -> Known {
    var slot = lane % RIGHT;
    if VECTORS {
        slot = lane / FOURS;
    }
    return known_around(vec4<u32>(first.y + slot) + vec4<u32>(0u, RIGHT, 2u * RIGHT, 3u * RIGHT));
}

fn stage_right(known: Known, group: u32, column: u32, depth: u32, to: u32, lane: u32) {
    if VECTORS {
        if lane < RIGHT * FOURS {
            let slot = lane / FOURS;
            let d = lane % FOURS * 4u;
            let found = terms_of_each(known, group, depth + d);
            let block = transpose(mat4x4<f32>(vec4<f32>(found.x), vec4<f32>(found.y), vec4<f32>(found.z), vec4<f32>(found.w)));
            right_tile[d * RIGHT + slot] = block[0];
            right_tile[(d + 1u) * RIGHT + slot] = block[1];
            right_tile[(d + 2u) * RIGHT + slot] = block[2];
            right_tile[(d + 3u) * RIGHT + slot] = block[3];
        }
    } else {
        for (var e = lane; e < RIGHT * DEPTH; e += 256u) {
            right_tile[e] = vec4<f32>(term_of_each(known, group, depth + e / RIGHT));
        }
    }
}

fn stage_left(group: u32, row: u32, depth: u32, to: u32, lane: u32) {
    if !BACK && TERMS % 4u == 0u {
        for (var e = lane; e < LEFT * FOURS; e += 256u) {
            let first = row + e / FOURS * 4u;
            let d = e % FOURS * 4u;
            let block = transpose(mat4x4<f32>(
                vec4<f32>(terms_of_row(group, first, depth + d)),
                vec4<f32>(terms_of_row(group, first + 1u, depth + d)),
                vec4<f32>(terms_of_row(group, first + 2u, depth + d)),
                vec4<f32>(terms_of_row(group, first + 3u, depth + d)),
            ));
            let slot = e / FOURS;
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
            left_tile[e % DEPTH * LEFT + e / DEPTH] = vec4<f32>(vec4<elem>(
                weight(group, first, term),
                weight(group, first + 1u, term),
                weight(group, first + 2u, term),
                weight(group, first + 3u, term),
            ));
        }
    }
}

// The tile of a workgroup: its group, its first row and its first column. Workgroups that run together share positions, then
// kernels.
fn tile_of(index: u32) -> vec3<u32> {
    let down = (TO_C + TILE_ROWS - 1u) / TILE_ROWS;
    let across = (POSITIONS + TILE_COLUMNS - 1u) / TILE_COLUMNS;
    return vec3<u32>(index / (down * across), index % down * TILE_ROWS, index / down % across * TILE_COLUMNS);
}
