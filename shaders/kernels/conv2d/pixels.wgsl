// Staging of an implicit GEMM of filters and pixels. A row is a channel of the result, a column a position of it, and a term a
// channel of the source at a tap. The matrix of pixels is never stored: pixels are gathered as they are staged. The importing
// kernel stores the results (`store_tile`: see conv2d/tile).

#import conv2d/gather
#import conv2d/tile

const K_VEC4: u32 = BLOCK_K / 4u;
// Channels, which are rows, are neighbours where they come last.
const ROWS_TOGETHER: bool = LAST;

fn column_of(slot: u32, i: u32) -> u32 {
    return slot + i * N_VEC4;
}

// The thread stages the same four positions in every step.
fn known_of(group: u32, first: vec2<u32>, lane: u32) -> Known {
    var slot = lane % N_VEC4;
    if VECTORS {
        slot = lane / K_VEC4;
    }
    return known_around(vec4<u32>(first.y + slot) + vec4<u32>(0u, N_VEC4, 2u * N_VEC4, 3u * N_VEC4));
}

fn stage_right(known: Known, group: u32, column: u32, depth: u32, to: u32, lane: u32) {
    if VECTORS {
        if lane < N_VEC4 * K_VEC4 {
            let slot = lane / K_VEC4;
            let d = lane % K_VEC4 * 4u;
            let found = terms_of_each(known, group, depth + d);
            let block = transpose(mat4x4<f32>(vec4<f32>(found.x), vec4<f32>(found.y), vec4<f32>(found.z), vec4<f32>(found.w)));
            right_tile[d][slot] = block[0];
            right_tile[d + 1u][slot] = block[1];
            right_tile[d + 2u][slot] = block[2];
            right_tile[d + 3u][slot] = block[3];
        }
    } else {
        for (var e = lane; e < N_VEC4 * BLOCK_K; e += 256u) {
            right_tile[e / N_VEC4][e % N_VEC4] = vec4<f32>(term_of_each(known, group, depth + e / N_VEC4));
        }
    }
}

fn stage_left(group: u32, row: u32, depth: u32, to: u32, lane: u32) {
    if !BACK && TERMS % 4u == 0u {
        for (var e = lane; e < M_VEC4 * K_VEC4; e += 256u) {
            let first = row + e / K_VEC4 * 4u;
            let d = e % K_VEC4 * 4u;
            let block = transpose(mat4x4<f32>(
                vec4<f32>(terms_of_row(group, first, depth + d)),
                vec4<f32>(terms_of_row(group, first + 1u, depth + d)),
                vec4<f32>(terms_of_row(group, first + 2u, depth + d)),
                vec4<f32>(terms_of_row(group, first + 3u, depth + d)),
            ));
            let slot = e / K_VEC4;
            left_tile[d][slot] = block[0];
            left_tile[d + 1u][slot] = block[1];
            left_tile[d + 2u][slot] = block[2];
            left_tile[d + 3u][slot] = block[3];
        }
    } else if BACK && LAST && TO_C % 4u == 0u {
        // Rows of a term are contiguous.
        for (var e = lane; e < M_VEC4 * BLOCK_K; e += 256u) {
            let term = depth + e / M_VEC4;
            let first = row + e % M_VEC4 * 4u;
            var rows = vec4<f32>();
            if term < to && first < TO_C {
                rows = vec4<f32>(w[weight_at(group, first, term % FROM_C, term / FROM_C) / 4u]);
            }
            left_tile[e / M_VEC4][e % M_VEC4] = rows;
        }
    } else {
        for (var e = lane; e < M_VEC4 * BLOCK_K; e += 256u) {
            let term = depth + e % BLOCK_K;
            let first = row + e / BLOCK_K * 4u;
            left_tile[e % BLOCK_K][e / BLOCK_K] = vec4<f32>(vec4<elem>(
                weight(group, first, term),
                weight(group, first + 1u, term),
                weight(group, first + 2u, term),
                weight(group, first + 3u, term),
            ));
        }
    }
}

// Tile of a workgroup: its group, first row and first column. Workgroups that run together share positions, then filters.
fn tile_of(index: u32) -> vec3<u32> {
    let down = (TO_C + BLOCK_M - 1u) / BLOCK_M;
    let across = (POSITIONS + BLOCK_N - 1u) / BLOCK_N;
    return vec3<u32>(index / (down * across), index % down * BLOCK_M, index / down % across * BLOCK_N);
}
