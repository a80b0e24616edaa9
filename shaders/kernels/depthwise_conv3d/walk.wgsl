// How threads go over a convolution in `marching` and in the gradient of its filters: which columns and rows are theirs, and
// how a row of the image is read. What is computed with at once, `value`, and how a piece becomes such, is said by the texts
// that import this: one column, or four channels of one.
//
// A thread has ALONG columns of DOWN rows. Under them lie WINDOW columns of WINDOW_ROWS rows of each slice of the image, which
// are read in LOADS pieces.

@group(0) @binding(0) var<storage, read> x: array<stored>;

struct Walk {
    // Of the example, and of its channel or piece of channels.
    n: u32,
    c: u32,
    // Of the first column, in groups of ALONG; of the first row; and of the first slice.
    unit: u32,
    y: u32,
    z: u32,
}

// The walk of this number, of those that go over channel `c`.
fn walk_of(number: u32, c: u32) -> Walk {
    let strip = number / (UNITS * TILES);
    return Walk(strip / STRIPS, c, number % UNITS, number / UNITS % TILES * DOWN, strip % STRIPS * STRIP);
}

// Whether threads' rows and columns of results are all there.
const WHOLE_ROWS: bool = OH % DOWN == 0u;
const WHOLE_COLUMNS: bool = OW % ALONG == 0u;

// Where results are as many as elements along an axis, and whole, elements right under a thread's own results are there in any case: those of
// DOWN rows from PH on, and of pieces from LEAD on, which are as many as columns, or one of several columns.
fn own_row(row: u32) -> bool {
    return WHOLE_ROWS && SH == 1u && OH == IH && row - PH < DOWN;
}

fn own_load(load: u32) -> bool {
    return WHOLE_COLUMNS && SW == 1u && OW == IW && load - LEAD < select(1u, ALONG, CHANNELS_LAST);
}

// A row of the image under the thread's columns, zero where there is none. In pieces, unsigned: what is in front of the row
// wraps around and is beyond its end.
fn window_of(walk: Walk, z: u32, row: u32) -> array<value, WINDOW> {
    var window = array<value, WINDOW>();
    let y = walk.y * SH + row - PH;
    // Drivers do best with a return here, and with nothing more asked below: that takes 113 µs natively with channels first, where it is 90.
    // With what browsers make of a return they do only in images whose channels are last: in Chromium on an H200 294 µs in place of 310 for
    // 8×64×512², but 121 in place of 110 for 2×32×32×128², and gradients of filters with channels first take 1.08 times as long.
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
