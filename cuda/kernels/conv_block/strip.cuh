// A block's strip of the elements of a channel, where channels are not last. Its planes are counted as contiguous.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

constexpr unsigned PLANE_PIECES = PLANE / WIDTH;

// Part of a channel, and its pieces.
struct Strip {
    unsigned channel, part, begin, end;
};

__device__ __forceinline__ Strip strip_of_block() {
    const u64 flat = flat_workgroup();
    const unsigned part = (unsigned)(flat % PARTS), begin = part * (STRIP / WIDTH);
    return {(unsigned)(flat / PARTS), part, begin, begin + min(STRIP, ROWS - part * STRIP) / WIDTH};
}

// Index of a channel's piece in the array.
__device__ __forceinline__ u64 place_in(unsigned channel, unsigned at) {
    return (u64)(at / PLANE_PIECES * CHANNELS + channel) * PLANE_PIECES + at % PLANE_PIECES;
}
