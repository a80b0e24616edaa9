// Where bags are among their items.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

// A piece of a bag's row: which bag, and which piece of it.
struct of_bag {
    unsigned bag, piece;
};

__device__ __forceinline__ of_bag bag_at(u64 at) { return {(unsigned)at / PIECES, (unsigned)at % PIECES}; }
