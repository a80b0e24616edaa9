// A block's strip of the elements of a channel, where channels are not last: its planes are counted one behind the other.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

constexpr unsigned PLANE_PIECES = PLANE / WIDTH;

// A part of a channel, and the pieces that belong to it.
struct Strip {
    unsigned channel, part, begin, end;
};

__device__ __forceinline__ Strip strip_of_block() {
    const u64 flat = flat_workgroup();
    const unsigned part = (unsigned)(flat % PARTS), begin = part * (STRIP / WIDTH);
    return {(unsigned)(flat / PARTS), part, begin, begin + min(STRIP, ROWS - part * STRIP) / WIDTH};
}

// Where a channel's piece is among all.
__device__ __forceinline__ u64 place_in(unsigned channel, unsigned at) {
    return (u64)(at / PLANE_PIECES * CHANNELS + channel) * PLANE_PIECES + at % PLANE_PIECES;
}
