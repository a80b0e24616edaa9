// Workgroup memory of the kernels of attention on matrix units: tiles of TILE rows as eights, and where scores and weights lie for matrices
// to be loaded from.

#import lib/eights

const LOG2_E: f32 = 1.4426950408889634;
// Eights in a row, and from one staged row to the next, padded so that neighbours start in different memory banks.
const EIGHTS: u32 = WIDTH / 8u;
const ROW: u32 = EIGHTS + 1u;
// Vectors of four from one row to the next: of scores, and of weights.
const LONG: u32 = TILE / 4u + 2u;
const LIGHT: u32 = TILE / 4u + 2u;

var<workgroup> stage: array<Piece, STAGED * PIECES>;

// The e-th eight of a tile that begins at this one of the stage.
fn put_staged(first: u32, e: u32, x: Eight) {
    // Threads may be more than the last eights.
    if e >= TILE * EIGHTS {
        return;
    }
    put_eight(first + e / EIGHTS * ROW + e % EIGHTS, x);
}

fn put_eight(at: u32, x: Eight) {
#if IN_A_BROWSER
    stage[at] = x;
#else
    stage[2u * at] = low_of(x);
    stage[2u * at + 1u] = high_of(x);
#endif
}
