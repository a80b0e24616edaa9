// Shared by the variants of attention: the masks. Of the HEADS heads of queries, each GROUP neighbours have one head of keys
// and values.

#import lib/nan

// Number of keys that query i sees, if T are there: all, or those up to the diagonal that ends at the last key.
fn visible(i: u32) -> u32 {
    if !CAUSAL {
        return T;
    }
    return min(T, max(i + 1u + T, S) - S);
}

// The first query that sees key j, S or more where none does.
fn first_query(j: u32) -> u32 {
    if !CAUSAL {
        return 0u;
    }
    return max(j + S, T) - T;
}

#if OWN_LENGTHS
@group(0) @binding(LENGTHS_AT) var<storage, read> lengths: array<u32>;
#endif
#if BIASED
@group(0) @binding(MASK_AT) var<storage, read> mask: array<elem>;
#endif

// Keys that there are for a head of queries.
fn keys_of(head: u32) -> u32 {
    var keys = T;
#if OWN_LENGTHS
    keys = min(T, lengths[head / ITEM_HEADS]);
#endif
    return keys;
}

// Number of keys that query i of a head sees.
fn seen_keys(head: u32, i: u32) -> u32 {
    return min(visible(i), keys_of(head));
}

// The score of a key that is not seen, below all others. No infinity: WGSL promises nothing about them. Weights are zero where a score
// is this one, so that NaN, which compares with nothing, reaches the sums.
const HIDDEN: f32 = -3e38;
// What finite values of the mask are cut off at, so that a score stays above that even when exponents are to base two.
const LEAST_BIAS: f32 = -2e38;

// A score with what the mask adds to it, which is counted in this unit.
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
