// Attention of one token per sequence, the sequence split into parts. The definition is in
// core/src/suite/workloads/attention_decode.
//
// attention_decode_split  against `naive`: workgroups per head of keys and part of the sequence, which read each key and
//                         value once for HELD heads of queries, with an online softmax over tiles of 32 tokens
//
// Of 128 threads four multiply a key with all queries, each every fourth element; then 32 weigh the tokens for one query;
// then each adds up a column of the values for all queries.

#import attention_decode/cache
#import lib/lanes
#import lib/launch

@group(0) @binding(5) var<storage, read_write> parts: array<f32>;
@group(0) @binding(6) var<storage, read_write> numbers: array<f32>;

const SHARES: u32 = HEADS / KEY_HEADS / HELD;
const MOST_HELD: u32 = THREADS / KEYS;
const LOG2_E: f32 = 1.4426950408889634;

var<workgroup> queries: array<f32, HELD * D>;
var<workgroup> products: array<f32, THREADS * 4u>;
var<workgroup> weights: array<f32, THREADS>;
var<workgroup> places: array<u32, KEYS>;
var<workgroup> rescale: array<f32, MOST_HELD>;

@compute @workgroup_size(THREADS)
fn attention_decode_split(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let flat = flat_group(group, groups);
    let share = flat / SPLITS;
    if share >= SEQUENCES * KEY_HEADS * SHARES {
        return;
    }
    let part = flat % SPLITS;
    let key_head = share / SHARES % KEY_HEADS;
    let sequence = share / (SHARES * KEY_HEADS);
    // The heads of a sequence, group by group, are the shares of all sequences, HELD at a time.
    let first_row = share * HELD;
    let begin = part * CHUNK;
    let end = min(lengths[sequence], begin + CHUNK);
    for (var e = thread; e < HELD * D; e += THREADS) {
        queries[e] = f32(q[first_row * D + e]);
    }
    workgroupBarrier();

    let scale = inverseSqrt(f32(D)) * LOG2_E;
    var top = -1e30;
    var total = 0.0;
    var sums: array<f32, COLUMNS * HELD>;
    for (var first = begin; first < end; first += KEYS) {
        let key = thread / 4u;
        var product: array<f32, HELD>;
        if first + key < end {
            let at = cache_at(sequence, first + key, key_head);
            if thread % 4u == 0u {
                places[key] = at;
            }
            for (var x = thread % 4u; x < D; x += 4u) {
                let element = f32(k[at + x]);
                for (var g = 0u; g < HELD; g++) {
                    product[g] += queries[g * D + x] * element;
                }
            }
        }
        for (var g = 0u; g < HELD; g++) {
            products[(g * KEYS + key) * 4u + thread % 4u] = product[g];
        }
        workgroupBarrier();

        // Thread g · 32 + i weighs token i for query g.
        var score = -1e30;
        let seen = thread / KEYS < HELD && first + thread % KEYS < end;
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
                for (var i = 0u; i < min(KEYS, end - first); i++) {
                    let value = f32(v[places[i] + col]);
                    for (var g = 0u; g < HELD; g++) {
                        sums[c * HELD + g] += weights[g * KEYS + i] * value;
                    }
                }
            }
        }
        // The next tile's places must not come before all have read these.
        workgroupBarrier();
    }

    for (var c = 0u; c < COLUMNS; c++) {
        let col = thread + c * THREADS;
        if col < D {
            for (var g = 0u; g < HELD; g++) {
                parts[((first_row + g) * SPLITS + part) * D + col] = sums[c * HELD + g];
            }
        }
    }
    if thread % KEYS == 0u && thread / KEYS < HELD {
        let at = ((first_row + thread / KEYS) * SPLITS + part) * 2u;
        numbers[at] = top;
        numbers[at + 1u] = total;
    }
}
