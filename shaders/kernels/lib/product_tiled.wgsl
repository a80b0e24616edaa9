// Products of matrices, tile by tile: a workgroup stages tiles of A and B in workgroup memory, and a thread keeps a block of
// sums in registers. What becomes of a sum is said by `finished(at, column, sum)` of the text that imports this.
//
// 16×16 threads. Thread (x, y) computes SQUARES × SQUARES squares of 4 × 4 elements, 64 rows or columns apart: rows
// 4y + 64i.. and columns 4x + 64j... Tiles of A are kept as vectors along its rows, tiles of B likewise; what is stored the
// other way round is read and turned in blocks of 4 × 4.

#import lib/product

const A_ROW: u32 = DEPTH / 4u;
const B_ROW: u32 = TILE / 4u;
const ROWS: u32 = 4u * SQUARES;

var<workgroup> a_tile: array<vec4<f32>, TILE * A_ROW>;
var<workgroup> b_tile: array<vec4<f32>, DEPTH * B_ROW>;

// Rows row .. row + TILE - 1 and columns depth .. depth + DEPTH - 1 of A.
fn stage_a(batch: u32, row: u32, depth: u32, lane: u32) {
    if A_BY_COLUMN {
        for (var e = lane; e < TILE / 4u * A_ROW; e += 256u) {
            let d = depth + e % A_ROW * 4u;
            let r = e / A_ROW * 4u;
            let block = transpose(mat4x4<f32>(
                vec4<f32>(four_of_a(batch, d, row + r)),
                vec4<f32>(four_of_a(batch, d + 1u, row + r)),
                vec4<f32>(four_of_a(batch, d + 2u, row + r)),
                vec4<f32>(four_of_a(batch, d + 3u, row + r)),
            ));
            a_tile[r * A_ROW + e % A_ROW] = block[0];
            a_tile[(r + 1u) * A_ROW + e % A_ROW] = block[1];
            a_tile[(r + 2u) * A_ROW + e % A_ROW] = block[2];
            a_tile[(r + 3u) * A_ROW + e % A_ROW] = block[3];
        }
    } else {
        for (var e = lane; e < TILE * A_ROW; e += 256u) {
            a_tile[e] = vec4<f32>(four_of_a(batch, row + e / A_ROW, depth + e % A_ROW * 4u));
        }
    }
}

// Rows depth .. depth + DEPTH - 1 and columns col .. col + TILE - 1 of B.
fn stage_b(batch: u32, depth: u32, col: u32, lane: u32) {
    if B_BY_COLUMN {
        for (var e = lane; e < TILE / 4u * A_ROW; e += 256u) {
            let d = e % A_ROW * 4u;
            let n = e / A_ROW;
            let block = transpose(mat4x4<f32>(
                vec4<f32>(four_of_b(batch, col + n * 4u, depth + d)),
                vec4<f32>(four_of_b(batch, col + n * 4u + 1u, depth + d)),
                vec4<f32>(four_of_b(batch, col + n * 4u + 2u, depth + d)),
                vec4<f32>(four_of_b(batch, col + n * 4u + 3u, depth + d)),
            ));
            b_tile[d * B_ROW + n] = block[0];
            b_tile[(d + 1u) * B_ROW + n] = block[1];
            b_tile[(d + 2u) * B_ROW + n] = block[2];
            b_tile[(d + 3u) * B_ROW + n] = block[3];
        }
    } else {
        for (var e = lane; e < DEPTH * B_ROW; e += 256u) {
            b_tile[e] = vec4<f32>(four_of_b(batch, depth + e / B_ROW, col + e % B_ROW * 4u));
        }
    }
}

// Four neighbouring sums of a row: row `r` of square `s` of the thread.
fn put(batch: u32, first: vec2<u32>, local: vec3<u32>, r: u32, s: u32, sum: vec4<f32>) {
    let row = first.y + r / 4u * 64u + local.y * 4u + r % 4u;
    if row >= M {
        return;
    }
    let col = first.x + s * 64u + local.x * 4u;
    let at = (batch * M + row) * N + col;
    if col < N { c[at] = elem(finished(at, col, sum.x)); }
    if col + 1u < N { c[at + 1u] = elem(finished(at + 1u, col + 1u, sum.y)); }
    if col + 2u < N { c[at + 2u] = elem(finished(at + 2u, col + 2u, sum.z)); }
    if col + 3u < N { c[at + 3u] = elem(finished(at + 3u, col + 3u, sum.w)); }
}

// The index-th tile of all products. Threads past the end leave together.
fn product_tiled(index: u32, local: vec3<u32>, lane: u32) {
    let across = (N + TILE - 1u) / TILE;
    let down = (M + TILE - 1u) / TILE;
    let batch = index / (across * down);
    if batch >= BATCH {
        return;
    }
    let first = tile_at(index % (across * down), across, down) * TILE;
    var sums: array<vec4<f32>, ROWS * SQUARES>;

    for (var depth = 0u; depth < K; depth += DEPTH) {
        workgroupBarrier();
        stage_a(batch, first.y, depth, lane);
        stage_b(batch, depth, first.x, lane);
        workgroupBarrier();
        for (var d = 0u; d < A_ROW; d++) {
            var right = array<vec4<f32>, ROWS>();
            for (var i = 0u; i < ROWS; i++) {
                right[i] = b_tile[(d * 4u + i % 4u) * B_ROW + local.x + i / 4u * 16u];
            }
            for (var r = 0u; r < ROWS; r++) {
                let left = a_tile[(r / 4u * 64u + local.y * 4u + r % 4u) * A_ROW + d];
                for (var s = 0u; s < SQUARES; s++) {
                    var sum = sums[r * SQUARES + s];
                    sum = fma(vec4<f32>(left.x), right[s * 4u], sum);
                    sum = fma(vec4<f32>(left.y), right[s * 4u + 1u], sum);
                    sum = fma(vec4<f32>(left.z), right[s * 4u + 2u], sum);
                    sum = fma(vec4<f32>(left.w), right[s * 4u + 3u], sum);
                    sums[r * SQUARES + s] = sum;
                }
            }
        }
    }

    // In loops of few turns. Compilers do not unroll a long one that has much to do to each sum, and what a loop counts through
    // cannot be in registers: sums would be in memory from the beginning, which made products with GELU 3.8 times as slow.
    for (var r = 0u; r < min(1u, ROWS); r++) {
        for (var s = 0u; s < SQUARES; s++) {
            put(batch, first, local, r, s, sums[r * SQUARES + s]);
        }
    }
    for (var r = 1u; r < min(2u, ROWS); r++) {
        for (var s = 0u; s < SQUARES; s++) {
            put(batch, first, local, r, s, sums[r * SQUARES + s]);
        }
    }
    for (var r = 2u; r < min(3u, ROWS); r++) {
        for (var s = 0u; s < SQUARES; s++) {
            put(batch, first, local, r, s, sums[r * SQUARES + s]);
        }
    }
    for (var r = 3u; r < min(4u, ROWS); r++) {
        for (var s = 0u; s < SQUARES; s++) {
            put(batch, first, local, r, s, sums[r * SQUARES + s]);
        }
    }
    for (var r = 4u; r < min(5u, ROWS); r++) {
        for (var s = 0u; s < SQUARES; s++) {
            put(batch, first, local, r, s, sums[r * SQUARES + s]);
        }
    }
    for (var r = 5u; r < min(6u, ROWS); r++) {
        for (var s = 0u; s < SQUARES; s++) {
            put(batch, first, local, r, s, sums[r * SQUARES + s]);
        }
    }
    for (var r = 6u; r < min(7u, ROWS); r++) {
        for (var s = 0u; s < SQUARES; s++) {
            put(batch, first, local, r, s, sums[r * SQUARES + s]);
        }
    }
    for (var r = 7u; r < min(8u, ROWS); r++) {
        for (var s = 0u; s < SQUARES; s++) {
            put(batch, first, local, r, s, sums[r * SQUARES + s]);
        }
    }
}
