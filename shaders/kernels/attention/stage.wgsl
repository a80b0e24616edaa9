// Workgroup memory of attention on matrix units: tiles of TILE rows as vectors of eight, and scores and weights, from which
// matrices are loaded.

#import lib/f16x8

const LOG2_E: f32 = 1.4426950408889634;
// Vectors of eight per row, and per staged row with padding against bank conflicts.
const ROW_VEC8: u32 = WIDTH / 8u;
const ROW: u32 = ROW_VEC8 + 1u;
// Vectors of four from one row to the next: of scores, and of weights.
const LONG: u32 = TILE / 4u + 2u;
const LIGHT: u32 = TILE / 4u + 2u;

var<workgroup> stage: array<Piece, STAGED * PIECES>;

// Stages vector e of a tile that begins at vector `first` of the stage.
fn stage_f16x8(first: u32, e: u32, x: F16x8) {
    // There may be more threads than vectors.
    if e >= TILE * ROW_VEC8 {
        return;
    }
    store_f16x8(first + e / ROW_VEC8 * ROW + e % ROW_VEC8, x);
}

fn store_f16x8(at: u32, x: F16x8) {
#if IN_A_BROWSER
    stage[at] = x;
#else
    stage[2u * at] = low_of(x);
    stage[2u * at + 1u] = high_of(x);
#endif
}
