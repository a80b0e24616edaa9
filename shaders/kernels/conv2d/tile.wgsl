// Products by tiles whose factors are gathered: a workgroup of 256 threads stages TILE_ROWS rows of the left factor and
// TILE_COLUMNS columns of the right one, DEPTH terms at a time, and a thread keeps ROW_SQUARES × COLUMN_SQUARES squares of
// 4 × 4 sums in registers. Where they are from, and what becomes of sums, is said by the text that imports this:
// `ROWS_TOGETHER`, whether rows are neighbours in memory, `known_of(group, first, lane)` for what a thread knows of its columns all along, `stage_left` and `stage_right`, and
// `put_square`.
//
// Both tiles lie term by term, as slots of four. A slot of the left tile is four neighbouring rows; one of the right tile is four
// columns that `column_of` tells.

const LEFT: u32 = TILE_ROWS / 4u;
const RIGHT: u32 = TILE_COLUMNS / 4u;
const DOWN: u32 = LEFT / ROW_SQUARES;
const ACROSS: u32 = RIGHT / COLUMN_SQUARES;
const SQUARES: u32 = ROW_SQUARES * COLUMN_SQUARES;

var<workgroup> left_tile: array<vec4<f32>, DEPTH * LEFT>;
var<workgroup> right_tile: array<vec4<f32>, DEPTH * RIGHT>;

// The sums over terms begin .. end - 1 of the tile whose first row and column these are.
fn tile_product(group: u32, first: vec2<u32>, begin: u32, end: u32, lane: u32) {
    let known = known_of(group, first, lane);
    // Neighbouring threads store neighbours.
    let down = select(lane / ACROSS, lane % DOWN, ROWS_TOGETHER);
    let across = select(lane % ACROSS, lane / DOWN, ROWS_TOGETHER);
    var sums: array<vec4<f32>, SQUARES * 4u>;

    for (var depth = begin; depth < end; depth += DEPTH) {
        workgroupBarrier();
        stage_left(group, first.x, depth, end, lane);
        stage_right(known, group, first.y, depth, end, lane);
        workgroupBarrier();
        for (var d = 0u; d < DEPTH; d++) {
            var right = array<vec4<f32>, COLUMN_SQUARES>();
            for (var s = 0u; s < COLUMN_SQUARES; s++) {
                right[s] = right_tile[d * RIGHT + across + s * ACROSS];
            }
            for (var r = 0u; r < ROW_SQUARES; r++) {
                let left = left_tile[d * LEFT + down + r * DOWN];
                for (var s = 0u; s < COLUMN_SQUARES; s++) {
                    let at = (r * COLUMN_SQUARES + s) * 4u;
                    sums[at] = fma(vec4<f32>(left.x), right[s], sums[at]);
                    sums[at + 1u] = fma(vec4<f32>(left.y), right[s], sums[at + 1u]);
                    sums[at + 2u] = fma(vec4<f32>(left.z), right[s], sums[at + 2u]);
                    sums[at + 3u] = fma(vec4<f32>(left.w), right[s], sums[at + 3u]);
                }
            }
        }
    }

    for (var r = 0u; r < ROW_SQUARES; r++) {
        for (var s = 0u; s < COLUMN_SQUARES; s++) {
            let at = (r * COLUMN_SQUARES + s) * 4u;
            // Turned: four rows of one column in each vector.
            let square = transpose(mat4x4<f32>(sums[at], sums[at + 1u], sums[at + 2u], sums[at + 3u]));
            put_square(group, first.x + 4u * (down + r * DOWN), first.y, across + s * ACROSS, square);
        }
    }
}
