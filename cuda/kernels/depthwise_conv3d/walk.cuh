// How threads go over a convolution in `marching` and in the gradient of its filters: which columns and rows are theirs, and
// how a row of the image is read.
//
// A thread has ALONG columns of DOWN rows. Under them lie WINDOW columns of WINDOW_ROWS rows of each slice of the image, which
// are read in LOADS pieces of WIDTH elements: neighbouring channels where these are last, and neighbouring columns otherwise,
// of which the first SKIP lie in front of the window. Lengths are multiples of WIDTH, so that a piece lies inside the image or
// outside.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

// What is computed with at once: WIDTH channels of a column, or one column.
constexpr unsigned LANES = CHANNELS_LAST ? WIDTH : 1;
constexpr unsigned TAPS = KD * KH * KW;
constexpr unsigned STEP_ROWS = SD * WINDOW_ROWS;

struct value {
    float at[LANES];
};

// A row of the image as it lies in memory.
struct raw_row {
    stored at[LOADS];
};

struct walk {
    // Of the example, and of its channel or piece of channels.
    unsigned n, c;
    // Of the first column, in groups of ALONG; of the first row; and of the first slice.
    unsigned unit, y, z;
};

// The walk of this number, of those that go over channel `c`.
__device__ __forceinline__ walk walk_of(u64 number, unsigned c) {
    walk mine;
    mine.c = c;
    mine.unit = (unsigned)(number % UNITS);
    number /= UNITS;
    mine.y = (unsigned)(number % TILES) * DOWN;
    number /= TILES;
    mine.z = (unsigned)(number % STRIPS) * STRIP;
    mine.n = (unsigned)(number / STRIPS);
    return mine;
}

// Pieces in front of a row of an array of these extents.
__device__ __forceinline__ u64 row_start(const walk& mine, unsigned z, unsigned y, unsigned depth, unsigned height,
                                         unsigned width) {
    if constexpr (CHANNELS_LAST) return (((u64)mine.n * depth + z) * height + y) * width * CHANNELS + mine.c;
    return ((((u64)mine.n * C + mine.c) * depth + z) * height + y) * (width / WIDTH);
}

// A row of a slice, counted from the padding's first, under the thread's columns; zero where there is none, or from slice `end`
// on. Unsigned: what is in front of the image wraps around and is beyond its end.
__device__ __forceinline__ raw_row fetch(const elem* __restrict__ x, const walk& mine, unsigned slice, unsigned row,
                                         unsigned end) {
    raw_row raw;
    const unsigned z = slice - PD, y = mine.y * SH + row - PH, first = mine.unit * STEP - LEAD;
    const bool inside = slice < end && z < ID && y < IH;
    const u64 start = inside ? row_start(mine, z, y, ID, IH, IW) : 0;
    constexpr unsigned limit = CHANNELS_LAST ? IW : IW / WIDTH, apart = CHANNELS_LAST ? CHANNELS : 1;
#pragma unroll
    for (unsigned i = 0; i < LOADS; i++) {
        raw.at[i] = stored{};
        if (inside && first + i < limit) raw.at[i] = load_stored(x, start + (u64)(first + i) * apart);
    }
    return raw;
}

// The same as it is computed with.
__device__ __forceinline__ void open_row(const raw_row& raw, value window[WINDOW]) {
#pragma unroll
    for (unsigned i = 0; i < WINDOW; i++) {
#pragma unroll
        for (unsigned lane = 0; lane < LANES; lane++) {
            window[i].at[lane] = CHANNELS_LAST ? load(raw.at[i % LOADS].at[lane % WIDTH])
                                               : load(raw.at[(SKIP + i) / WIDTH % LOADS].at[(SKIP + i) % WIDTH]);
        }
    }
}

// Goes over the rows of a strip: `begin` is called with each step, `row` with the window of each row of its slices (slice of
// the step, row, window) and `end` when they are all in. AHEAD rows are under way while one is computed with.
template <typename Begin, typename Row, typename End>
__device__ __forceinline__ void march(const elem* __restrict__ x, const walk& mine, Begin begin, Row take, End end) {
    const unsigned last = (mine.z + STRIP < OD ? mine.z + STRIP : OD) + IN_FLIGHT - 1;
    raw_row ahead[AHEAD];
#pragma unroll
    for (unsigned i = 0; i < AHEAD; i++) {
        ahead[i] = fetch(x, mine, mine.z * SD + i / WINDOW_ROWS, i % WINDOW_ROWS, last * SD);
    }
    for (unsigned step = mine.z; step < last; step++) {
        begin(step);
#pragma unroll
        for (unsigned at = 0; at < STEP_ROWS; at++) {
            value window[WINDOW];
            open_row(ahead[0], window);
#pragma unroll
            for (unsigned i = 1; i < AHEAD; i++) ahead[i - 1] = ahead[i];
            const unsigned next = at + AHEAD;
            ahead[AHEAD - 1] = fetch(x, mine, step * SD + next / WINDOW_ROWS, next % WINDOW_ROWS, last * SD);
            take(at / WINDOW_ROWS, at % WINDOW_ROWS, window);
        }
        end(step);
    }
}

// Calls `each` with (steps ago, row, number of the tap, its column) for every tap that a row of a slice of the step lies under:
// the tap belongs to results that began so many steps ago. Everything is known when it is compiled.
template <typename Each>
__device__ __forceinline__ void each_tap(unsigned slice, unsigned row, Each each) {
#pragma unroll
    for (unsigned i = 0; i < KD; i++) {
#pragma unroll
        for (unsigned j = 0; j < KH; j++) {
            const bool under = i * LD % SD == slice && row >= j * LH && (row - j * LH) % SH == 0;
            const unsigned down = (row - j * LH) / SH;
            if (!under || down >= DOWN) continue;
#pragma unroll
            for (unsigned k = 0; k < KW; k++) each(i * LD / SD, down, (i * KH + j) * KW + k, k * LW);
        }
    }
}
