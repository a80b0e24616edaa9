// Sort of SIZE pairs of key and position, a power of two, by a bitonic network: larger keys come first, then lower positions.

var<workgroup> keys: array<u32, SIZE>;
var<workgroup> places: array<u32, SIZE>;

fn comes_first(key: u32, place: u32, other_key: u32, other_place: u32) -> bool {
    return key > other_key || (key == other_key && place < other_place);
}

// Sorts the pairs. The first `count` were stored by any threads; the others become last. All threads must call.
fn sort_pairs(thread: u32, count: u32) {
    for (var i = count + thread; i < SIZE; i += THREADS) {
        keys[i] = 0u;
        places[i] = 0xffffffffu;
    }
    workgroupBarrier();
    for (var size = 2u; size <= SIZE; size *= 2u) {
        for (var step = size / 2u; step > 0u; step /= 2u) {
            for (var i = thread; i < SIZE / 2u; i += THREADS) {
                let a = 2u * i - (i & (step - 1u));
                let b = a + step;
                let rising = (a & size) != 0u;
                if comes_first(keys[b], places[b], keys[a], places[a]) != rising {
                    let key = keys[a];
                    let place = places[a];
                    keys[a] = keys[b];
                    places[a] = places[b];
                    keys[b] = key;
                    places[b] = place;
                }
            }
            workgroupBarrier();
        }
    }
}
