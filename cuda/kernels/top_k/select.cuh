// The K largest of a row, by a block, from the largest keys of its groups.
//
// Of the items, first groups and then elements of the chosen groups, the wanted ones with the largest keys are chosen, and lower
// items of equal keys. Elements that are no less than the least chosen group are sorted at once if they are few. Otherwise the
// bits of the least wanted key are found, up to eight at a time, by counting. No result depends on the order of atomic operations.

#include "top_k/keys.cuh"

constexpr unsigned BINS = 256, WARPS = THREADS / 32;
constexpr unsigned CHOSEN = K < GROUPS ? K : GROUPS;
// Elements of the chosen groups.
constexpr unsigned CANDIDATES = CHOSEN * GROUP;
constexpr unsigned NO_KEY = 0;
// Loads of a thread in flight.
constexpr unsigned BATCH = 4;

// Least wanted key: its known bits with zeros below, the number of bits below, and the number of wanted keys with the known bits.
struct Cut {
    unsigned prefix, rest, wanted;
};

// Mask of all bits but the lowest ones.
__device__ __forceinline__ unsigned above(unsigned rest) { return rest == 32 ? 0 : ALL << rest; }

// Finds the least of `wanted` keys, which lies between two keys. All threads of the block must call.
template <typename Key>
__device__ __forceinline__ Cut find_cut(Key key_at, unsigned items, unsigned wanted, unsigned least, unsigned largest) {
    __shared__ unsigned bins[BINS];
    // Digit of the least wanted key, number of larger keys, and number of keys with this digit.
    __shared__ unsigned found[3];
    const unsigned lane = threadIdx.x % 32;
    Cut cut{0, 32 - (unsigned)__clz((int)(least ^ largest)), wanted};
    cut.prefix = largest & above(cut.rest);
    // All keys have the same lowest bits.
    while (cut.rest > LOW) {
        const unsigned bits = cut.rest - LOW < 8 ? cut.rest - LOW : 8, shift = cut.rest - bits;
        for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) bins[bin] = 0;
        __syncthreads();
        for (unsigned first = threadIdx.x; first - threadIdx.x < items; first += BATCH * THREADS) {
            unsigned key[BATCH];
#pragma unroll
            for (unsigned i = 0; i < BATCH; i++) {
                const unsigned item = first + i * THREADS;
                key[i] = item < items ? key_at(item) : NO_KEY;
            }
            // Lanes of the same digit add their number at once.
#pragma unroll
            for (unsigned i = 0; i < BATCH; i++) {
                const bool counts = first + i * THREADS < items && ((key[i] ^ cut.prefix) & above(cut.rest)) == 0;
                if (!__any_sync(ALL, counts)) continue;
                const unsigned digit = counts ? (key[i] >> shift) & ((1u << bits) - 1) : BINS;
                const unsigned alike = __match_any_sync(ALL, digit);
                if (counts && (alike & ((1u << lane) - 1)) == 0) atomicAdd(&bins[digit], (unsigned)__popc(alike));
            }
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            // Eight bins per lane, from the largest digit.
            constexpr unsigned own = BINS / 32;
            unsigned sum = 0;
#pragma unroll
            for (unsigned i = 0; i < own; i++) sum += bins[BINS - 1 - lane * own - i];
            unsigned upto = sum;
#pragma unroll
            for (unsigned step = 1; step < 32; step *= 2) {
                const unsigned more = __shfl_up_sync(ALL, upto, step);
                if (lane >= step) upto += more;
            }
            unsigned larger = upto - sum;
            if (larger < cut.wanted && cut.wanted <= upto) {
                for (unsigned digit = BINS - 1 - lane * own;; digit--) {
                    const unsigned count = bins[digit];
                    if (cut.wanted <= larger + count) {
                        found[0] = digit, found[1] = larger, found[2] = count;
                        break;
                    }
                    larger += count;
                }
            }
        }
        __syncthreads();
        cut.prefix |= found[0] << shift;
        cut.rest = shift;
        cut.wanted -= found[1];
        // All keys with the known bits are wanted.
        if (found[2] == cut.wanted) break;
    }
    return cut;
}

// Calls `keep` with the place, number and key of each wanted item, in their order. A warp has consecutive items. All threads of
// the block must call.
template <typename Key, typename Keep>
__device__ __forceinline__ void take(Key key_at, unsigned items, const Cut& cut, Keep keep) {
    __shared__ uint2 of_warps[WARPS];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, known = above(cut.rest);
    const unsigned rows = (items + THREADS - 1) / THREADS, first = warp * rows * 32 + lane;
    const unsigned lower = (1u << lane) - 1;
    unsigned larger = 0, equal = 0;
    for (unsigned row = 0; row < rows; row++) {
        const unsigned item = first + row * 32, key = item < items ? key_at(item) & known : 0;
        larger += __popc(__ballot_sync(ALL, item < items && key > cut.prefix));
        equal += __popc(__ballot_sync(ALL, item < items && key == cut.prefix));
    }
    if (lane == 0) of_warps[warp] = make_uint2(larger, equal);
    __syncthreads();
    larger = equal = 0;
    for (unsigned other = 0; other < warp; other++) larger += of_warps[other].x, equal += of_warps[other].y;
    for (unsigned row = 0; row < rows; row++) {
        const unsigned item = first + row * 32, key = item < items ? key_at(item) : NO_KEY;
        const bool is_larger = item < items && (key & known) > cut.prefix;
        const bool is_equal = item < items && (key & known) == cut.prefix;
        const unsigned all_larger = __ballot_sync(ALL, is_larger), all_equal = __ballot_sync(ALL, is_equal);
        const unsigned before = equal + __popc(all_equal & lower);
        if (is_larger || (is_equal && before < cut.wanted)) {
            keep(larger + __popc(all_larger & lower) + (before < cut.wanted ? before : cut.wanted), item, key);
        }
        larger += __popc(all_larger), equal += __popc(all_equal);
    }
    __syncthreads();
}

// Sorts SIZE entries, a power of two, by a bitonic network: larger ones come first. The first `count` were stored by any threads;
// the others become last. All threads of the block must call.
__device__ __forceinline__ void sort_entries(u64* entries, unsigned count) {
    for (unsigned i = count + threadIdx.x; i < SIZE; i += THREADS) entries[i] = 0;
    __syncthreads();
    for (unsigned size = 2; size <= SIZE; size *= 2) {
        for (unsigned step = size / 2; step > 0; step /= 2) {
            for (unsigned i = threadIdx.x; i < SIZE / 2; i += THREADS) {
                const unsigned at = 2 * i - (i & (step - 1));
                const u64 a = entries[at], b = entries[at + step];
                if ((b > a) == ((at & size) == 0)) entries[at] = b, entries[at + step] = a;
            }
            __syncthreads();
        }
    }
}

// Stores the K largest of a row. `largest_at` returns the largest key of a group. All threads of the block must call, after a
// barrier if they have stored these keys.
template <typename Largest>
__device__ __forceinline__ void select_row(const elem* __restrict__ row, Largest largest_at, elem* __restrict__ values,
                                           unsigned* __restrict__ indices) {
    // Groups that may have a wanted element, in rising order.
    __shared__ unsigned chosen[CHOSEN];
    __shared__ u64 entries[SIZE];
    __shared__ unsigned survivors;
    if (threadIdx.x == 0) survivors = 0;
    unsigned least = NO_KEY, largest = ALL;
    if constexpr (GROUPS > K) {
        __shared__ uint2 of_warps[WARPS];
        unsigned low = ALL, high = 0;
#pragma unroll 4
        for (unsigned item = threadIdx.x; item < GROUPS; item += THREADS) {
            const unsigned key = largest_at(item);
            low = min(low, key), high = max(high, key);
        }
#pragma unroll
        for (unsigned step = 16; step > 0; step /= 2) {
            low = min(low, __shfl_xor_sync(ALL, low, step)), high = max(high, __shfl_xor_sync(ALL, high, step));
        }
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = make_uint2(low, high);
        __syncthreads();
        for (unsigned warp = 0; warp < WARPS; warp++) low = min(low, of_warps[warp].x), high = max(high, of_warps[warp].y);
        const Cut cut = find_cut(largest_at, GROUPS, K, low, high);
        take(largest_at, GROUPS, cut, [&](unsigned to, unsigned item, unsigned) { chosen[to] = item; });
        least = cut.prefix, largest = high;
    } else {
        for (unsigned i = threadIdx.x; i < GROUPS; i += THREADS) chosen[i] = i;
        __syncthreads();
    }

    const auto element_of = [&](unsigned item) { return chosen[item / GROUP] * GROUP + item % GROUP; };
    // An element past the end of the row has no key.
    const auto key_at = [&](unsigned item) {
        const unsigned at = element_of(item);
        return at < COLUMNS ? key_of(load(row[at])) : NO_KEY;
    };
    for (unsigned first = threadIdx.x; first < CANDIDATES; first += 2 * BATCH * THREADS) {
        unsigned key[2 * BATCH];
#pragma unroll
        for (unsigned i = 0; i < 2 * BATCH; i++) {
            const unsigned item = first + i * THREADS;
            key[i] = item < CANDIDATES ? key_at(item) : NO_KEY;
        }
#pragma unroll
        for (unsigned i = 0; i < 2 * BATCH; i++) {
            if (key[i] == NO_KEY || key[i] < least) continue;
            const unsigned to = atomicAdd(&survivors, 1u);
            if (to < SIZE) entries[to] = entry_of(key[i], element_of(first + i * THREADS));
        }
    }
    __syncthreads();
    unsigned count = survivors;
    if (count > SIZE) {
        const Cut cut = find_cut(key_at, CANDIDATES, K, least, largest);
        take(key_at, CANDIDATES, cut,
             [&](unsigned to, unsigned item, unsigned key) { entries[to] = entry_of(key, element_of(item)); });
        count = K;
    }
    sort_entries(entries, count);
    for (unsigned i = threadIdx.x; i < K; i += THREADS) {
        const unsigned at = place_of(entries[i]);
        values[i] = row[at];
        indices[i] = at;
    }
}
