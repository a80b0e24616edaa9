// Search in numbers that rise.

// The first position of so many whose number is at least `wanted`. It is looked for around a guess, further away at each step: a
// few dependent loads where the guess is good.
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
