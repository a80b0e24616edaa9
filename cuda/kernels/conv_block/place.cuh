// Pieces of a thread, all of the same channels, in either layout: every TOGETHER-th of a line of LINE pieces. A line is a plane,
// or everything where channels are last.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

// Pieces of a row of channels, where these are last.
constexpr unsigned CHANNEL_PIECES = LAST ? CHANNELS / WIDTH : 1;

// Pieces of a thread, and the index of its channels.
struct Place {
    unsigned begin, end, channel;
};

__device__ __forceinline__ Place place_of_thread() {
    const u64 thread = flat_workgroup() * THREADS + threadIdx.x;
    const unsigned line = (unsigned)(thread / TOGETHER), within = (unsigned)(thread % TOGETHER);
    if (line >= LINES) return {0, 0, 0};
    return {line * LINE + within, (line + 1) * LINE, LAST ? within % CHANNEL_PIECES : line % CHANNELS};
}

__device__ __forceinline__ piece of_channels(const elem* __restrict__ numbers, unsigned channel) {
    return LAST ? load_piece(numbers, channel) : piece_of(load(numbers[channel]));
}

__device__ __forceinline__ piece of_floats(const float* __restrict__ numbers, unsigned channel) {
    return LAST ? load_floats(numbers, channel) : piece_of(numbers[channel]);
}
