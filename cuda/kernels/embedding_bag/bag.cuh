// Ranges of items of the bags.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

// A piece of a bag's row: the bag and the index of the piece.
struct of_bag {
    unsigned bag, piece;
};

__device__ __forceinline__ of_bag bag_at(u64 at) { return {(unsigned)at / PIECES, (unsigned)at % PIECES}; }
