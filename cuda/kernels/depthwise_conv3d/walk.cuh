// How threads go over a convolution in `marching` and in the gradient of its filters: which columns and rows are theirs, and
// how a row of the image is read.
//
// A thread has ALONG columns of DOWN rows. Under them lie WINDOW columns of WINDOW_ROWS rows of each slice of the image, which
// are read in LOADS pieces of WIDTH elements: neighbouring channels where these are last, and neighbouring columns otherwise,
// of which the first SKIP lie in front of the window. Lengths are multiples of WIDTH, so that a piece lies inside the image or
// outside. Of a piece that has one column of the window in it, that column is read alone.
//
// What is under way stays in words as it came, with two elements of 16 bits in each: taken apart on arrival it would be twice as
// many registers, all of which move up with each row.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

// What is computed with at once: WIDTH channels of a column, or one column.
constexpr unsigned LANES = CHANNELS_LAST ? WIDTH : 1;
constexpr unsigned TAPS = KD * KH * KW;
constexpr unsigned STEP_ROWS = SD * WINDOW_ROWS;

struct value {
    float at[LANES];
};

// A piece of the image as it lies in memory, and a row of such.
struct raw_piece {
    unsigned word[(WIDTH * sizeof(elem) + 3) / 4];
};

struct raw_row {
    raw_piece at[LOADS];
};

#if defined(ELEM_F32)

__device__ __forceinline__ unsigned bits_of(elem x) { return __float_as_uint(x); }

// An element of a piece.
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

// Pieces between neighbours along each axis of the image.
constexpr unsigned APART = CHANNELS_LAST ? CHANNELS : 1;
constexpr u64 ROW_PIECES = CHANNELS_LAST ? (u64)IW * CHANNELS : IW / WIDTH;
constexpr u64 SLICE_PIECES = IH * ROW_PIECES;

// Where the thread's window of the first slice of its strip begins, which may be in front of the image.
__device__ __forceinline__ const elem* origin(const elem* __restrict__ x, const walk& mine) {
    const long long row = (long long)mine.y * SH - (int)PH, first = (long long)mine.unit * STEP - (int)LEAD;
    const long long slice = (long long)mine.z * SD - (int)PD, of_image = (long long)row_start(mine, 0, 0, ID, IH, IW);
    const long long at = of_image + slice * (long long)SLICE_PIECES + row * (long long)ROW_PIECES + first * (int)APART;
    return x + at * (int)WIDTH;
}

// The first and the last column of the window in a piece of a row, and one more.
constexpr unsigned begin_of(unsigned i) { return i == 0 ? SKIP : 0; }
constexpr unsigned end_of(unsigned i) { return SKIP + WINDOW < (i + 1) * WIDTH ? SKIP + WINDOW - i * WIDTH : WIDTH; }

// A row under the thread's columns, `ahead` slices after this one, which is counted from the padding's first and begins `here`;
// zero where there is none, or from slice `end` on. Unsigned: what is in front of the image wraps around and is beyond its end.
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

// The same as it is computed with.
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

// Goes over the rows of a strip: `begin` is called with each step, `row` with the window of each row of its slices (slice of
// the step, row, window) and `end` when they are all in. AHEAD rows are under way while one is computed with.
template <typename Begin, typename Row, typename End>
__device__ __forceinline__ void march(const elem* __restrict__ x, const walk& mine, Begin begin, Row take, End end) {
    const unsigned last = (mine.z + STRIP < OD ? mine.z + STRIP : OD) + IN_FLIGHT - 1;
    const elem* here = origin(x, mine);
    raw_row ahead[AHEAD];
#pragma unroll
    for (unsigned i = 0; i < AHEAD; i++) {
        ahead[i] = fetch(here, mine, mine.z * SD, i / WINDOW_ROWS, i % WINDOW_ROWS, last * SD);
    }
    // So many steps at once that what is under way is back in its registers.
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
