// Attention of one token per sequence, with sequences split into parts. The definition is in
// core/workloads/src/ops/attention_decode.
//
// attention_decode_split  a workgroup per head of keys and part of the sequence; each key and value is read once for HELD heads
//                         of queries, with an online softmax over tiles of 32 tokens
//
// Of 128 threads, four multiply a key with all queries, each every fourth element. Then 32 threads weigh the tokens for one
// query. Then each thread sums a column of the values for all queries.
//
// With APPENDS, the last token of a sequence comes from the new keys and values, and no workgroup reads its place in the caches.
// The first workgroup of a head of keys with this token writes it there.

#import attention_decode/cache //= PREFIXED: #import attention_decode/prefix
#import lib/lanes
#import lib/launch
#import lib/lowest

@group(0) @binding(0) var<storage, read> q: array<elem>;
#if APPENDS
@group(0) @binding(1) var<storage, read_write> k: array<elem>;
@group(0) @binding(2) var<storage, read_write> v: array<elem>;
#else
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
#endif
@group(0) @binding(3) var<storage, read> table: array<u32>;
@group(0) @binding(4) var<storage, read> lengths: array<u32>;
@group(0) @binding(5) var<storage, read_write> parts: array<f32>;
@group(0) @binding(6) var<storage, read_write> numbers: array<f32>;
#if APPENDS
@group(0) @binding(7) var<storage, read> new_k: array<elem>;
@group(0) @binding(8) var<storage, read> new_v: array<elem>;
#endif

const SHARES: u32 = HEADS / KEY_HEADS / HELD; //= PREFIXED: const SHARES: u32 = ROWS_OF_HEAD / HELD;
const MOST_HELD: u32 = THREADS / KEYS;
const LOG2_E: f32 = 1.4426950408889634;

var<workgroup> queries: array<f32, HELD * D>;
var<workgroup> products: array<f32, THREADS * 4u>;
var<workgroup> weights: array<f32, THREADS>;
var<workgroup> places: array<u32, KEYS>;
var<workgroup> rescale: array<f32, MOST_HELD>;

// Marker of a token outside the caches: the new one, whose key and value begin at `own`.
const NEW: u32 = 0xffffffffu;

fn place_of(sequence: u32, token: u32, key_head: u32) -> u32 {
#if APPENDS
    if token + 1u == lengths[sequence] { return NEW; }
#endif
    return cache_at(sequence, token, key_head);
}

fn key_element(place: u32, own: u32, x: u32) -> f32 {
#if APPENDS
    if place == NEW { return f32(new_k[own + x]); }
#endif
    return f32(k[place + x]);
}

fn value_element(place: u32, own: u32, x: u32) -> f32 {
#if APPENDS
    if place == NEW { return f32(new_v[own + x]); }
#endif
    return f32(v[place + x]);
}

// Adds the weighted values of this many tokens.
#block add_values(TOKENS)
    for (var i = 0u; i < TOKENS; i++) {
        let value = value_element(places[i], own, col);
        for (var g = 0u; g < HELD; g++) {
            sums[c * HELD + g] += weights[g * KEYS + i] * value;
        }
    }
#end

@compute @workgroup_size(THREADS)
fn attention_decode_split(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let flat = flat_group(group, groups);
    let share = flat / SPLITS;
    if share >= SEQUENCES * KEY_HEADS * SHARES { //= PREFIXED: if share >= SETS * KEY_HEADS * SHARES {
        return;
    }
    let part = flat % SPLITS;
    let key_head = share / SHARES % KEY_HEADS;
    let sequence = share / (SHARES * KEY_HEADS);
    // A sequence's heads, group by group, are divided into shares of HELD.
    let first_row = share * HELD; //= PREFIXED:
    let begin = part * CHUNK; //= PREFIXED: let begin = FIRST + part * CHUNK;
    let length = lengths[sequence]; //= PREFIXED: let length = min(select(lengths[sequence], LAST, SETS < SEQUENCES), LAST);
    let end = min(length, begin + CHUNK);
    let own = (sequence * KEY_HEADS + key_head) * D;
    for (var e = thread; e < HELD * D; e += THREADS) {
        queries[e] = f32(q[first_row * D + e]); //= PREFIXED: queries[e] = f32(q[row_of(share, e / D) * D + e % D]);
    }
    workgroupBarrier();

    let scale = inverseSqrt(f32(D)) * LOG2_E;
    var top = LOWEST;
    var total = 0.0;
    var sums: array<f32, COLUMNS * HELD>;
    for (var first = begin; first < end; first += KEYS) {
        let key = thread / 4u;
        var product = array<f32, HELD>();
        if first + key < end {
            let at = place_of(sequence, first + key, key_head);
            if thread % 4u == 0u {
                places[key] = at;
            }
            for (var i = 0u; i < (D + 3u) / 4u; i++) {
                let x = 4u * i + thread % 4u;
                if D % 4u == 0u || x < D {
                    let element = key_element(at, own, x);
                    for (var g = 0u; g < HELD; g++) {
                        product[g] += queries[g * D + x] * element;
                    }
                }
            }
        }
        for (var g = 0u; g < HELD; g++) {
            products[(g * KEYS + key) * 4u + thread % 4u] = product[g];
        }
        workgroupBarrier();

        // Thread g · 32 + i weighs token i for query g.
        var score = LOWEST;
        let seen = thread / KEYS < HELD && first + thread % KEYS < end; //= PREFIXED: let seen = thread / KEYS < HELD && first + thread % KEYS < min(end, tokens_of(share, thread / KEYS));
        if seen {
            let at = thread * 4u;
            score = (products[at] + products[at + 1u] + products[at + 2u] + products[at + 3u]) * scale;
        }
        let before = top;
        top = max(top, lanes_max(thread, score));
        let weight = select(0.0, exp2(score - top), seen);
        let shrink = exp2(before - top);
        total = total * shrink + lanes_sum(thread, weight);
        weights[thread] = weight;
        if thread % KEYS == 0u {
            rescale[thread / KEYS] = shrink;
        }
        workgroupBarrier();

        for (var c = 0u; c < COLUMNS; c++) {
            let col = thread + c * THREADS;
            if col < D {
                for (var g = 0u; g < HELD; g++) {
                    sums[c * HELD + g] *= rescale[g];
                }
                if end - first >= KEYS {
                    #emit add_values(KEYS)
                } else {
                    let tokens = end - first;
                    #emit add_values(tokens)
                }
            }
        }
        // The next tile's places must not be stored before all threads have read these.
        workgroupBarrier();
    }

    for (var c = 0u; c < COLUMNS; c++) {
        let col = thread + c * THREADS;
        if col < D {
            for (var g = 0u; g < HELD; g++) {
                parts[((first_row + g) * SPLITS + part) * D + col] = sums[c * HELD + g]; //= PREFIXED: parts[(row_of(share, g) * ALL_PARTS + FIRST_PART + part) * D + col] = sums[c * HELD + g];
            }
        }
    }
    if thread % KEYS == 0u && thread / KEYS < HELD {
        let at = ((first_row + thread / KEYS) * SPLITS + part) * 2u; //= PREFIXED: let at = (row_of(share, thread / KEYS) * ALL_PARTS + FIRST_PART + part) * 2u;
        numbers[at] = top;
        numbers[at + 1u] = total;
    }
#if APPENDS
    if share % SHARES == 0u && begin < length && length == end {
        for (var x = thread; x < D; x += THREADS) { append(sequence, key_head, x); }
    }
#endif
}
