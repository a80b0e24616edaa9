// Walk of threads over a convolution, for `marching` and the gradient of its filters: columns and rows of a thread, and reads of
// the image's rows.
//
// A thread has ALONG columns of DOWN rows. Its window has WINDOW columns of WINDOW_ROWS rows of each slice of the image. A row is
// read in LOADS pieces of WIDTH elements: neighbouring channels where these are last, and neighbouring columns otherwise. The
// first SKIP elements precede the window. Lengths are multiples of WIDTH, so that a piece lies inside the image or outside. If a
// piece has one column of the window, that column alone is read.
//
// Loaded rows stay in words, with two elements of 16 bits in each. Widened on arrival they would need twice the registers.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

// Elements per operation: WIDTH channels of a column, or one column.
constexpr unsigned LANES = CHANNELS_LAST ? WIDTH : 1;
constexpr unsigned TAPS = KD * KH * KW;
constexpr unsigned STEP_ROWS = SD * WINDOW_ROWS;

struct value {
    float at[LANES];
};

// A piece of the image as in memory, and a row of pieces.
struct raw_piece {
    unsigned word[(WIDTH * sizeof(elem) + 3) / 4];
};

struct raw_row {
    raw_piece at[LOADS];
};

#if defined(ELEM_F32)

__device__ __forceinline__ unsigned bits_of(elem x) { return __float_as_uint(x); }

// Element of a piece, widened.
__device__ __forceinline__ float opened(const raw_piece& raw, unsigned at) { return __uint_as_float(raw.word[at]); }

#else

__device__ __forceinline__ unsigned bits_of(elem x) { return x.bits; }

__device__ __forceinline__ float opened(const raw_piece& raw, unsigned at) {
    const unsigned word = raw.word[at / 2];
#if defined(ELEM_BF16)
    return __uint_as_float(at % 2 == 0 ? word << 16 : word & 0xFFFF0000u);
#else
    return load(elem{(unsigned short)(at % 2 == 0 ? word : word >> 16)});
#endif
}

#endif

__device__ __forceinline__ raw_piece whole_piece(const elem* from) {
    raw_piece raw;
    if constexpr (WIDTH == 1) {
        raw.word[0] = bits_of(*from);
    } else {
        struct alignas(WIDTH * sizeof(elem) < 4 ? 4 : WIDTH * sizeof(elem)) words {
            unsigned at[WIDTH * sizeof(elem) / 4 + (WIDTH == 1)];
        };
        const words whole = *reinterpret_cast<const words*>(from);
#pragma unroll
        for (unsigned i = 0; i < sizeof(raw) / 4; i++) raw.word[i] = whole.at[i];
    }
    return raw;
}

struct walk {
    // Example, and channel or piece of channels.
    unsigned n, c;
    // First column, in groups of ALONG; first row; first slice.
    unsigned unit, y, z;
};

// Walk of this number over channel `c`.
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

// Number of pieces before a row of an array of these extents.
__device__ __forceinline__ u64 row_start(const walk& mine, unsigned z, unsigned y, unsigned depth, unsigned height,
                                         unsigned width) {
    if constexpr (CHANNELS_LAST) return (((u64)mine.n * depth + z) * height + y) * width * CHANNELS + mine.c;
    return ((((u64)mine.n * C + mine.c) * depth + z) * height + y) * (width / WIDTH);
}

// Pieces between neighbours along each axis of the image.
constexpr unsigned APART = CHANNELS_LAST ? CHANNELS : 1;
constexpr u64 ROW_PIECES = CHANNELS_LAST ? (u64)IW * CHANNELS : IW / WIDTH;
constexpr u64 SLICE_PIECES = IH * ROW_PIECES;

// Begin of the thread's window in the first slice of its strip, which may precede the image.
__device__ __forceinline__ const elem* origin(const elem* __restrict__ x, const walk& mine) {
    const long long row = (long long)mine.y * SH - (int)PH, first = (long long)mine.unit * STEP - (int)LEAD;
    const long long slice = (long long)mine.z * SD - (int)PD, of_image = (long long)row_start(mine, 0, 0, ID, IH, IW);
    const long long at = of_image + slice * (long long)SLICE_PIECES + row * (long long)ROW_PIECES + first * (int)APART;
    return x + at * (int)WIDTH;
}

// First and last column of the window in a piece of a row; the last is exclusive.
constexpr unsigned begin_of(unsigned i) { return i == 0 ? SKIP : 0; }
constexpr unsigned end_of(unsigned i) { return SKIP + WINDOW < (i + 1) * WIDTH ? SKIP + WINDOW - i * WIDTH : WIDTH; }

// Row under the thread's columns, `ahead` slices after this one. This slice is counted from the first of the padding and begins
// at `here`. Zero outside the image, or from slice `end` on. Unsigned: coordinates before the image wrap around and exceed its
// extent.
__device__ __forceinline__ raw_row fetch(const elem* __restrict__ here, const walk& mine, unsigned slice, unsigned ahead,
                                         unsigned row, unsigned end) {
    raw_row raw;
    slice += ahead;
    const unsigned z = slice - PD, y = mine.y * SH + row - PH, first = mine.unit * STEP - LEAD;
    const bool inside = slice < end && z < ID && y < IH;
    constexpr unsigned limit = CHANNELS_LAST ? IW : IW / WIDTH;
#pragma unroll
    for (unsigned i = 0; i < LOADS; i++) {
        raw.at[i] = raw_piece{};
        if (!inside || first + i >= limit) continue;
        const elem* from = here + (ahead * SLICE_PIECES + row * ROW_PIECES + i * APART) * WIDTH;
        if (!CHANNELS_LAST && WIDTH > 1 && end_of(i) - begin_of(i) == 1) {
            constexpr unsigned per_word = 4 / sizeof(elem);
            const unsigned at = begin_of(i);
            raw.at[i].word[at / per_word] = bits_of(from[at]) << 8 * sizeof(elem) * (at % per_word);
        } else {
            raw.at[i] = whole_piece(from);
        }
    }
    return raw;
}

// The row, widened.
__device__ __forceinline__ void open_row(const raw_row& raw, value window[WINDOW]) {
#pragma unroll
    for (unsigned i = 0; i < WINDOW; i++) {
#pragma unroll
        for (unsigned lane = 0; lane < LANES; lane++) {
            window[i].at[lane] = CHANNELS_LAST ? opened(raw.at[i % LOADS], lane % WIDTH)
                                               : opened(raw.at[(SKIP + i) / WIDTH % LOADS], (SKIP + i) % WIDTH);
        }
    }
}

// Visits the rows of a strip. `begin` is called at each step, `row` with the window of each row of its slices (slice of the step,
// row, window), and `end` after them. AHEAD rows are in flight.
template <typename Begin, typename Row, typename End>
__device__ __forceinline__ void march(const elem* __restrict__ x, const walk& mine, Begin begin, Row take, End end) {
    const unsigned last = (mine.z + STRIP < OD ? mine.z + STRIP : OD) + IN_FLIGHT - 1;
    const elem* here = origin(x, mine);
    raw_row ahead[AHEAD];
#pragma unroll
    for (unsigned i = 0; i < AHEAD; i++) {
        ahead[i] = fetch(here, mine, mine.z * SD, i / WINDOW_ROWS, i % WINDOW_ROWS, last * SD);
    }
    // Unrolled so far that rows in flight return to their registers.
#pragma unroll (STEP_ROWS % AHEAD == 0 ? 1 : AHEAD)
    for (unsigned step = mine.z; step < last; step++) {
        begin(step);
#pragma unroll
        for (unsigned at = 0; at < STEP_ROWS; at++) {
            value window[WINDOW];
            open_row(ahead[0], window);
#pragma unroll
            for (unsigned i = 1; i < AHEAD; i++) ahead[i - 1] = ahead[i];
            const unsigned next = at + AHEAD;
            ahead[AHEAD - 1] = fetch(here, mine, step * SD, next / WINDOW_ROWS, next % WINDOW_ROWS, last * SD);
            take(at / WINDOW_ROWS, at % WINDOW_ROWS, window);
        }
        end(step);
        here += SD * SLICE_PIECES * WIDTH;
    }
}

// Calls `each` with (steps ago, row, index of the tap, its column) for every tap that covers a row of a slice of the step. The
// tap belongs to results that began that number of steps ago. All arguments are compile-time constants.
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
