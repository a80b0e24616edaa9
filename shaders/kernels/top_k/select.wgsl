// The K largest of each row, by a workgroup, from the largest keys of its groups. The definition is in
// core/workloads/src/ops/top_k.rs.
//
// Of the items, first groups and then elements of the chosen groups, the wanted ones with the largest keys are chosen, and lower
// items of equal keys. Elements that are no less than the least chosen group are sorted at once if they are few. Otherwise the
// bits of the least wanted key are found, up to eight at a time, by counting. No result depends on the order of atomic operations.

#import lib/launch
#import top_k/keys
#import top_k/order

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> maxima: array<u32>;
@group(0) @binding(2) var<storage, read_write> values: array<elem>;
@group(0) @binding(3) var<storage, read_write> indices: array<u32>;

const BINS: u32 = 256u;
// Parts of sums over bins or threads.
const FEW: u32 = 16u;
const CHOSEN: u32 = min(K, GROUPS);
const NO_KEY: u32 = 0u;
// Passes that find eight bits each. All keys have the same LOW lowest bits.
const PASSES: u32 = (32u - LOW + 7u) / 8u;

// Least wanted key.
struct Cut {
    // Its known bits; the others are zero.
    prefix: u32,
    // Number of lower bits that are not known.
    rest: u32,
    // Number of wanted keys with the known bits.
    wanted: u32,
    // One if these are all keys with the known bits.
    whole: u32,
}

var<workgroup> cut: Cut;
var<workgroup> bins: array<atomic<u32>, BINS>;
var<workgroup> sums: array<vec2<u32>, THREADS>;
var<workgroup> few: array<vec2<u32>, FEW>;
// Groups that may have a wanted element, in rising order.
var<workgroup> chosen: array<u32, CHOSEN>;
// Least and largest key, and number of elements to sort.
var<workgroup> least_key: atomic<u32>;
var<workgroup> largest_key: atomic<u32>;
var<workgroup> survivors: atomic<u32>;
var<workgroup> count: u32;

fn element_of(item: u32) -> u32 {
    return chosen[item / GROUP] * GROUP + item % GROUP;
}

// Key of an item. An element past the end of its row has no key.
fn key_at(elements: bool, row: u32, item: u32) -> u32 {
    if !elements {
        return maxima[row * GROUPS + item];
    }
    let at = element_of(item);
    if at >= COLUMNS {
        return NO_KEY;
    }
    return key_of(f32(x[row * COLUMNS + at]));
}

// Mask of all bits but the lowest ones.
fn above(rest: u32) -> u32 {
    return select(0xffffffffu << (rest % 32u), 0u, rest == 32u);
}

// Finds the least wanted key, which lies between two keys. All threads must call.
fn find_cut(thread: u32, elements: bool, row: u32, items: u32, least: u32, largest: u32) -> Cut {
    if thread == 0u {
        let rest = 32u - countLeadingZeros(least ^ largest);
        cut = Cut(largest & above(rest), rest, min(K, items), 0u);
    }
    var now = workgroupUniformLoad(&cut);
    // The number of passes is constant: a loop that ended by the key hung on an NVIDIA H200 through Vulkan. After the last needed pass,
    // bins are empty and the key stays.
    for (var step = 0u; step < PASSES; step++) {
        let needed = now.whole == 0u && now.rest > LOW;
        let bits = min(8u, max(now.rest, LOW) - LOW);
        let shift = now.rest - bits;
        for (var bin = thread; bin < BINS; bin += THREADS) {
            atomicStore(&bins[bin], 0u);
        }
        workgroupBarrier();
        for (var item = select(items, thread, needed); item < items; item += THREADS) {
            let key = key_at(elements, row, item);
            if ((key ^ now.prefix) & above(now.rest)) == 0u {
                atomicAdd(&bins[(key >> shift) & ((1u << bits) - 1u)], 1u);
            }
        }
        workgroupBarrier();
        if thread < FEW {
            var sum = 0u;
            for (var i = 0u; i < BINS / FEW; i++) {
                sum += atomicLoad(&bins[thread * (BINS / FEW) + i]);
            }
            few[thread].x = sum;
        }
        workgroupBarrier();
        for (var bin = thread; bin < BINS; bin += THREADS) {
            let found = atomicLoad(&bins[bin]);
            let part = bin / (BINS / FEW);
            var larger = 0u;
            for (var i = part + 1u; i < FEW; i++) {
                larger += few[i].x;
            }
            for (var i = bin + 1u; i < (part + 1u) * (BINS / FEW); i++) {
                larger += atomicLoad(&bins[i]);
            }
            if larger < now.wanted && now.wanted <= larger + found {
                let wanted = now.wanted - larger;
                cut = Cut(now.prefix | (bin << shift), shift, wanted, select(0u, 1u, found == wanted));
            }
        }
        now = workgroupUniformLoad(&cut);
    }
    return now;
}

// Sums of the numbers of all earlier threads. All threads must call.
fn earlier(thread: u32, mine: vec2<u32>) -> vec2<u32> {
    const OF_A_PART: u32 = THREADS / FEW;
    sums[thread] = mine;
    workgroupBarrier();
    if thread < FEW {
        var sum = vec2<u32>();
        for (var i = 0u; i < OF_A_PART; i++) {
            sum += sums[thread * OF_A_PART + i];
        }
        few[thread] = sum;
    }
    workgroupBarrier();
    var before = vec2<u32>();
    for (var i = 0u; i < thread / OF_A_PART; i++) {
        before += few[i];
    }
    for (var i = thread / OF_A_PART * OF_A_PART; i < thread; i++) {
        before += sums[i];
    }
    return before;
}

// Larger and equal: one if a key is larger than the least wanted one, or has its known bits.
fn compared(key: u32, now: Cut) -> vec2<u32> {
    let known = key & above(now.rest);
    return select(vec2<u32>(), vec2<u32>(1u), vec2<bool>(known > now.prefix, known == now.prefix));
}

// Stores the wanted items in their order. All threads must call.
fn take(thread: u32, elements: bool, row: u32, items: u32, now: Cut) {
    let own = (items + THREADS - 1u) / THREADS;
    let begin = min(thread * own, items);
    let end = min(begin + own, items);
    var mine = vec2<u32>();
    for (var item = begin; item < end; item++) {
        mine += compared(key_at(elements, row, item), now);
    }
    var before = earlier(thread, mine);
    for (var item = begin; item < end; item++) {
        let key = key_at(elements, row, item);
        let is = compared(key, now);
        if is.x == 1u || (is.y == 1u && before.y < now.wanted) {
            let to = before.x + min(before.y, now.wanted);
            if elements {
                keys[to] = key;
                places[to] = element_of(item);
            } else {
                chosen[to] = item;
            }
        }
        before += is;
    }
    workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn top_k_select(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    if thread == 0u {
        atomicStore(&least_key, 0xffffffffu);
        atomicStore(&largest_key, 0u);
        atomicStore(&survivors, 0u);
    }
    workgroupBarrier();
    var least = NO_KEY;
    var largest = 0xffffffffu;
    if GROUPS > K {
        var low = 0xffffffffu;
        var high = 0u;
        for (var item = thread; item < GROUPS; item += THREADS) {
            let key = key_at(false, row, item);
            low = min(low, key);
            high = max(high, key);
        }
        atomicMin(&least_key, low);
        atomicMax(&largest_key, high);
        workgroupBarrier();
        largest = atomicLoad(&largest_key);
        let now = find_cut(thread, false, row, GROUPS, atomicLoad(&least_key), largest);
        take(thread, false, row, GROUPS, now);
        least = now.prefix;
    } else {
        for (var i = thread; i < GROUPS; i += THREADS) {
            chosen[i] = i;
        }
        workgroupBarrier();
    }

    const ITEMS: u32 = CHOSEN * GROUP;
    for (var item = thread; item < ITEMS; item += THREADS) {
        let key = key_at(true, row, item);
        if key >= least && key != NO_KEY {
            let to = atomicAdd(&survivors, 1u);
            if to < SIZE {
                keys[to] = key;
                places[to] = element_of(item);
            }
        }
    }
    workgroupBarrier();
    if thread == 0u {
        count = atomicLoad(&survivors);
    }
    var stored_pairs = workgroupUniformLoad(&count);
    if stored_pairs > SIZE {
        let now = find_cut(thread, true, row, ITEMS, least, largest);
        take(thread, true, row, ITEMS, now);
        stored_pairs = K;
    }
    sort_pairs(thread, stored_pairs);
    for (var i = thread; i < K; i += THREADS) {
        values[row * K + i] = x[row * COLUMNS + places[i]];
        indices[row * K + i] = places[i];
    }
}
