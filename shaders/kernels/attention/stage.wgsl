// Workgroup memory of the kernels of attention on matrix units: tiles of TILE rows as eights, and where scores and weights lie for matrices
// to be loaded from.

#import lib/f16x8

const LOG2_E: f32 = 1.4426950408889634;
// Eights in a row, and from one staged row to the next, padded so that neighbours start in different memory banks.
const ROW_VEC8: u32 = WIDTH / 8u;
const ROW: u32 = ROW_VEC8 + 1u;
// Vectors of four from one row to the next: of scores, and of weights.
const LONG: u32 = TILE / 4u + 2u;
const LIGHT: u32 = TILE / 4u + 2u;

var<workgroup> stage: array<Piece, STAGED * PIECES>;

// The e-th f16x8 of a tile that begins at this one of the stage.
fn stage_f16x8(first: u32, e: u32, x: F16x8) {
    // Threads may be more than the last eights.
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
