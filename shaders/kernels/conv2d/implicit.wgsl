// Convolution as a product of kernels with pixels: against `direct`, tiles of both are staged in workgroup memory, and a thread
// keeps a block of sums in registers. A row is a channel of the result, a column a position of it. The definition is in
// core/src/suite/workloads/conv2d.

#import conv2d/gather
#import conv2d/tile
#import lib/launch

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

fn put_column(group: u32, row: u32, column: u32, sums: vec4<f32>) {
    if column >= POSITIONS {
        return;
    }
    let at = result_at(group, row, column / TO, column % TO);
    let apart = select(TO, 1u, LAST);
    let channel = group * TO_C + row;
    if row < TO_C { result[at] = elem(finished(channel, sums.x)); }
    if row + 1u < TO_C { result[at + apart] = elem(finished(channel + 1u, sums.y)); }
    if row + 2u < TO_C { result[at + 2u * apart] = elem(finished(channel + 2u, sums.z)); }
    if row + 3u < TO_C { result[at + 3u * apart] = elem(finished(channel + 3u, sums.w)); }
}

fn put_square(group: u32, row: u32, column: u32, slot: u32, square: mat4x4<f32>) {
    put_column(group, row, column + column_of(slot, 0u), square[0]);
    put_column(group, row, column + column_of(slot, 1u), square[1]);
    put_column(group, row, column + column_of(slot, 2u), square[2]);
    put_column(group, row, column + column_of(slot, 3u), square[3]);
}

@compute @workgroup_size(256)
fn conv2d_implicit(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Workgroups that run together share positions, then kernels.
    let down = (TO_C + TILE_ROWS - 1u) / TILE_ROWS;
    let across = (POSITIONS + TILE_COLUMNS - 1u) / TILE_COLUMNS;
    let index = flat_group(workgroup, workgroups);
    let group = index / (down * across);
    if group >= GROUPS {
        return;
    }
    let first = vec2<u32>(index % down * TILE_ROWS, index / down % across * TILE_COLUMNS);
    tile_product(group, first, 0u, TERMS, lane);
}
