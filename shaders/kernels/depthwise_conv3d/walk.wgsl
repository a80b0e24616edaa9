// Walk of threads over a convolution, for `marching` and the gradient of its filters: columns and rows of a thread, and reads of
// the image's rows. The importing kernel defines `value`, one column or four channels of one, and its conversion from a piece.
//
// A thread has ALONG columns of DOWN rows. Its window has WINDOW columns of WINDOW_ROWS rows of each slice of the image, read in
// LOADS pieces.

@group(0) @binding(0) var<storage, read> x: array<stored>;

struct Walk {
    // Example, and channel or piece of channels.
    n: u32,
    c: u32,
    // First column, in groups of ALONG; first row; first slice.
    unit: u32,
    y: u32,
    z: u32,
}

// Walk of this number over channel `c`.
fn walk_of(number: u32, c: u32) -> Walk {
    let strip = number / (UNITS * TILES);
    return Walk(strip / STRIPS, c, number % UNITS, number / UNITS % TILES * DOWN, strip % STRIPS * STRIP);
}

// Whether all rows and columns of results of all threads exist.
const WHOLE_ROWS: bool = OH % DOWN == 0u;
const WHOLE_COLUMNS: bool = OW % ALONG == 0u;

// Where an axis has as many results as elements, in whole groups, elements under a thread's own results always exist: DOWN rows
// from PH on, and pieces from LEAD on, one per column or per group of columns.
fn own_row(row: u32) -> bool {
    return WHOLE_ROWS && SH == 1u && OH == IH && row - PH < DOWN;
}

fn own_load(load: u32) -> bool {
    return WHOLE_COLUMNS && SW == 1u && OW == IW && load - LEAD < select(1u, ALONG, CHANNELS_LAST);
}

// Row of the image under the thread's columns, zero where there is none. Unsigned, in pieces: coordinates before the row wrap
// around and exceed its extent.
fn window_of(walk: Walk, z: u32, row: u32) -> array<value, WINDOW> {
    var window = array<value, WINDOW>();
    let y = walk.y * SH + row - PH;
    // A return is faster here natively and slower in most cases in browsers: see docs/notebook/2026-11-28-kernel-notes.md.
#if IN_A_BROWSER
    let there = z < ID && (own_row(row) || y < IH);
    if CHANNELS_LAST && WINDOW_ROWS == 1u && !there {
#else
    if z >= ID || y >= IH {
#endif
        return window;
    }
    let first = walk.unit * STEP - LEAD;
    if CHANNELS_LAST {
        let base = ((walk.n * ID + z) * IH + y) * IW;
        for (var load = 0u; load < LOADS; load++) {
#if IN_A_BROWSER
            if there && (own_load(load) || first + load < IW) {
#else
            if first + load < IW {
#endif
                set_piece(&window, load, x[(base + first + load) * CHANNELS + walk.c]);
            }
        }
    } else {
        let base = (((walk.n * C + walk.c) * ID + z) * IH + y) * (IW / WIDTH);
        for (var load = 0u; load < LOADS; load++) {
#if IN_A_BROWSER
            if there && (own_load(load) || first + load < IW / WIDTH) {
#else
            if first + load < IW / WIDTH {
#endif
                set_piece(&window, load, x[base + first + load]);
            }
        }
    }
    return window;
}
