// GEMM tiles of TILE by TILE, with STEP of the DEPTH terms at a time: each of 256 threads has four rows of four columns. The
// importing kernel defines the factors: `left(row, term)` and `right(term, column)`, which are zero outside. Where terms are
// neighbours in memory, neighbouring threads load neighbouring terms; otherwise rows or columns.

const TILE: u32 = 64u;
const STEP: u32 = 16u;

var<workgroup> lefts: array<array<f32, TILE>, STEP>;
var<workgroup> rights: array<array<f32, TILE>, STEP>;

// All threads of the workgroup must call. Thread `t` gets four rows from 4 * (t div 16) on, and four columns from 4 * (t mod 16)
// on.
fn tile_product(first_row: u32, first_column: u32, thread: u32) -> array<vec4<f32>, 4> {
    var sums: array<vec4<f32>, 4>;
    let rows = thread / 16u * 4u;
    let columns = thread % 16u * 4u;
    for (var term = 0u; term < DEPTH; term += STEP) {
        for (var i = thread; i < STEP * TILE; i += 256u) {
            let along = vec2<u32>(i % STEP, i / STEP);
            let down = vec2<u32>(i / TILE, i % TILE);
            let of_left = select(down, along, LEFT_ALONG);
            lefts[of_left.x][of_left.y] = left(first_row + of_left.y, term + of_left.x);
            let of_right = select(down, along, RIGHT_ALONG);
            rights[of_right.x][of_right.y] = right(term + of_right.x, first_column + of_right.y);
        }
        workgroupBarrier();
        for (var k = 0u; k < STEP; k++) {
            let across = vec4<f32>(
                rights[k][columns], rights[k][columns + 1u], rights[k][columns + 2u], rights[k][columns + 3u]);
            for (var i = 0u; i < 4u; i++) {
                sums[i] += lefts[k][rows + i] * across;
            }
        }
        workgroupBarrier();
    }
    return sums;
}
