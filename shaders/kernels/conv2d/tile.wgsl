// Tiled GEMM with gathered operands: 256 threads stage BLOCK_M rows of A and BLOCK_N columns of B, BLOCK_K terms at a time. A
// thread keeps REG_TILES_M × REG_TILES_N register tiles of 4 × 4 sums.
//
// The importing kernel has `ROWS_TOGETHER` (whether rows are neighbours in memory), `known_of(group, first, lane)` for a thread's
// columns, `stage_left`, `stage_right`, and `store_tile`.
//
// Both tiles are stored term by term, as slots of four: four neighbouring rows of A, or the four columns of `column_of`.

const M_VEC4: u32 = BLOCK_M / 4u;
const N_VEC4: u32 = BLOCK_N / 4u;
const THREADS_M: u32 = M_VEC4 / REG_TILES_M;
const THREADS_N: u32 = N_VEC4 / REG_TILES_N;
const REG_TILES: u32 = REG_TILES_M * REG_TILES_N;

var<workgroup> left_tile: array<array<vec4<f32>, M_VEC4>, BLOCK_K>;
var<workgroup> right_tile: array<array<vec4<f32>, N_VEC4>, BLOCK_K>;

// Sums over terms begin .. end - 1 of the tile with this first row and column.
fn tile_product(group: u32, first: vec2<u32>, begin: u32, end: u32, lane: u32) {
    let known = known_of(group, first, lane);
    // Neighbouring threads store neighbouring elements.
    let down = select(lane / THREADS_N, lane % THREADS_M, ROWS_TOGETHER);
    let across = select(lane % THREADS_N, lane / THREADS_M, ROWS_TOGETHER);
    var sums: array<vec4<f32>, REG_TILES * 4u>;

    for (var depth = begin; depth < end; depth += BLOCK_K) {
        workgroupBarrier();
        stage_left(group, first.x, depth, end, lane);
        stage_right(known, group, first.y, depth, end, lane);
        workgroupBarrier();
        for (var d = 0u; d < BLOCK_K; d++) {
            var right = array<vec4<f32>, REG_TILES_N>();
            for (var s = 0u; s < REG_TILES_N; s++) {
                right[s] = right_tile[d][across + s * THREADS_N];
            }
            for (var r = 0u; r < REG_TILES_M; r++) {
                let left = left_tile[d][down + r * THREADS_M];
                for (var s = 0u; s < REG_TILES_N; s++) {
                    let at = (r * REG_TILES_N + s) * 4u;
                    sums[at] = fma(vec4<f32>(left.x), right[s], sums[at]);
                    sums[at + 1u] = fma(vec4<f32>(left.y), right[s], sums[at + 1u]);
                    sums[at + 2u] = fma(vec4<f32>(left.z), right[s], sums[at + 2u]);
                    sums[at + 3u] = fma(vec4<f32>(left.w), right[s], sums[at + 3u]);
                }
            }
        }
    }

    for (var r = 0u; r < REG_TILES_M; r++) {
        for (var s = 0u; s < REG_TILES_N; s++) {
            let at = (r * REG_TILES_N + s) * 4u;
            // Transposed: four rows of one column per vector.
            let tile = transpose(mat4x4<f32>(sums[at], sums[at + 1u], sums[at + 2u], sums[at + 3u]));
            store_tile(group, first.x + 4u * (down + r * THREADS_M), first.y, across + s * THREADS_N, tile);
        }
    }
}
