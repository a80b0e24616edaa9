// Search in increasing numbers.

// First position among `count` numbers with a value of at least `wanted`. The search starts at a guess and doubles its distance:
// few dependent loads for a good guess.
__device__ __forceinline__ unsigned first_at_least(const unsigned* __restrict__ sorted, unsigned wanted, unsigned guess,
                                                   unsigned items) {
    unsigned low = guess, high = guess;
    for (unsigned step = 4; low > 0 && sorted[low - 1] >= wanted; step *= 2) {
        high = low - 1;
        low = high - min(high, step);
    }
    for (unsigned step = 4; high < items && sorted[high] < wanted; step *= 2) {
        low = high + 1;
        high = low + min(items - low, step);
    }
    while (low < high) {
        const unsigned middle = low + (high - low) / 2;
        if (sorted[middle] < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
