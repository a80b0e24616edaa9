// Search in increasing numbers of the binding `sorted`.

// First position among `items` numbers with a value of at least `wanted`. The search starts at a guess and doubles its distance:
// few dependent loads for a good guess.
fn first_at_least(wanted: u32, guess: u32, items: u32) -> u32 {
    var low = guess;
    var high = guess;
    for (var step = 4u; low > 0u && sorted[low - 1u] >= wanted; step *= 2u) {
        high = low - 1u;
        low = high - min(high, step);
    }
    for (var step = 4u; high < items && sorted[high] < wanted; step *= 2u) {
        low = high + 1u;
        high = low + min(items - low, step);
    }
    while low < high {
        let middle = low + (high - low) / 2u;
        if sorted[middle] < wanted {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}
