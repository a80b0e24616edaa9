// Masks of attention. A window has WINDOW keys up to the causal mask, or all if it is zero. GROUP neighbouring heads of queries share
// a head of keys and values. With SEQUENCES, queries and keys are the same tokens, and a query sees keys of its own sequence alone.

#import lib/nan

// Whether the first key that a query sees depends on the query.
const STARTS: bool = WINDOW > 0u || SEQUENCES > 0u;

#if OWN_LENGTHS
// Keys of each batch item, or bounds of packed sequences.
@group(0) @binding(LENGTHS_AT) var<storage, read> lengths: array<u32>;
#endif

// First token of the own sequence of token i, and the token after its last: the same for a token of none. Bounds ascend, and so do
// both results. All tokens are a sequence without SEQUENCES.
fn sequence_of(i: u32) -> vec2<u32> {
    var own = vec2<u32>(0u, T);
#if SEQUENCED
    var low = 0u;
    var high = SEQUENCES + 1u;
    while low < high {
        let middle = (low + high) / 2u;
        if lengths[middle] <= i {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    own = vec2<u32>();
    if low > 0u {
        own = min(vec2<u32>(lengths[low - 1u], lengths[min(low, SEQUENCES)]), vec2<u32>(T));
    }
#endif
    return own;
}

// Number of keys visible to query i, if T exist: all, or those up to the diagonal that ends at the last key.
fn visible(i: u32) -> u32 {
    let end = sequence_of(i).y;
    if !CAUSAL {
        return end;
    }
    return min(end, max(i + 1u + T, S) - S);
}

// First key in the window of query i.
fn window_start(i: u32) -> u32 {
    let first = sequence_of(i).x;
    if WINDOW == 0u {
        return first;
    }
    return min(T, max(first, max(i + 1u + T, S + WINDOW) - (S + WINDOW)));
}

// Query after the last whose window has key j.
fn window_end(j: u32) -> u32 {
    var end = S;
    if SEQUENCES > 0u {
        end = sequence_of(min(j, T - 1u)).y;
    }
    if WINDOW == 0u {
        return end;
    }
    return min(end, max(j + WINDOW + S, T) - T);
}

// First query that sees key j; S or more, or the window's end or more, if none does.
fn first_query(j: u32) -> u32 {
    if !CAUSAL {
        return sequence_of(j).x;
    }
    return max(j + S, T) - T;
}
#if BIASED
@group(0) @binding(MASK_AT) var<storage, read> mask: array<elem>;
#endif

// Number of keys of a head of queries.
fn keys_of(head: u32) -> u32 {
    var keys = T;
#if OWN_LENGTHS
    if SEQUENCES == 0u {
        keys = min(T, lengths[head / ITEM_HEADS]);
    }
#endif
    return keys;
}

// Number of keys visible to query i of a head.
fn seen_keys(head: u32, i: u32) -> u32 {
    return min(visible(i), keys_of(head));
}

// Whether query i of a head sees a key.
fn sees(head: u32, i: u32, key: u32) -> bool {
    if SEQUENCES > 0u {
        let own = sequence_of(i);
        return key >= own.x && key < own.y && (!CAUSAL || key <= i) && (WINDOW == 0u || key + WINDOW > i);
    }
    return key >= window_start(i) && key < seen_keys(head, i);
}

// Score of a hidden key, below all others. It is finite, because WGSL does not guarantee infinities. Weights are zero where a
// score equals it, so that NaN, which is unequal, reaches the sums.
const HIDDEN: f32 = -3e38;
// Lower bound of finite mask values: scores then stay above HIDDEN, also with exponents to base two.
const LEAST_BIAS: f32 = -2e38;

// Score plus mask, in multiples of this unit.
fn biased(score: f32, query: u32, key: u32, unit: f32) -> f32 {
    var sum = score;
#if BIASED
    if query < S && key < T { sum = with_bias(score, f32(mask[query * T + key]), unit); }
#endif
    return sum;
}

fn with_bias(score: f32, bias: f32, unit: f32) -> f32 {
    return select(score + maximum(bias, LEAST_BIAS) * unit, HIDDEN, bitcast<u32>(bias) == 0xff800000u);
}
