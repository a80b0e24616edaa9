// Changes of scores and of their sums, in place of attention/common alone. Scores are products of queries and keys, not scaled.
//
// CAPPED  a soft cap: SOFTCAP · tanh(score / SOFTCAP) of scaled scores
// ALIBI   slopes over the distance of query and key
// SINKS   a number per head that joins the sum of weights

#import attention/common
#import lib/nan

// Ratio of products to scaled scores.
const TO_PRODUCT: f32 = sqrt(f32(D));

#if CHANGES
// Slope of a head over distances, in scaled scores.
fn slope_of(head: u32) -> f32 {
    return select(0.0, exp2(-8.0 * f32(head % ITEM_HEADS + 1u) / f32(ITEM_HEADS)), ALIBI);
}

// Product under the soft cap. The logistic function has no overflow for exponents up to 64, and is one beyond.
fn capped(score: f32) -> f32 {
#if CAPPED
    const BOUND: f32 = SOFTCAP * TO_PRODUCT;
    let raised = exp2(min(score * (2.8853900817779268 / BOUND), 64.0));
    return select(BOUND - 2.0 * BOUND / (1.0 + raised), score, is_nan(score));
#else
    return score;
#endif
}

// Slope of the soft cap where it has this value.
fn slope_of_cap(bounded: f32) -> f32 {
#if CAPPED
    let share = bounded / (SOFTCAP * TO_PRODUCT);
    return 1.0 - share * share;
#else
    return 1.0;
#endif
}

// Product less the slope's share. The last query is at the last key.
fn sloped(score: f32, slope: f32, query: u32, key: u32) -> f32 {
#if ALIBI
    return score - slope * TO_PRODUCT * f32(abs(i32(query + T) - i32(S + key)));
#else
    return score;
#endif
}

// Product with all changes.
fn changed(score: f32, slope: f32, query: u32, key: u32) -> f32 {
    return sloped(capped(score), slope, query, key);
}

// The same of four neighbouring queries.
fn changed4(score: vec4<f32>, slope: f32, query: u32, key: u32) -> vec4<f32> {
    return vec4<f32>(changed(score.x, slope, query, key), changed(score.y, slope, query + 1u, key),
        changed(score.z, slope, query + 2u, key), changed(score.w, slope, query + 3u, key));
}
#endif

#if SINKS
@group(0) @binding(SINKS_AT) var<storage, read> sinks: array<elem>;

// Sum of weights with the sink's, for scaled scores above this maximum. Zero stays: a row without a visible key has no output.
// Weights are zero beside a sink that is higher by 80 or more.
fn with_sink(head: u32, top: f32, sum: f32) -> f32 {
    let over = f32(sinks[head % ITEM_HEADS]) - top;
    return select(sum + exp(-maximum(-over, -80.0)), 0.0, sum == 0.0);
}

// Logarithm of that sum of exponentials, or zero.
fn log_with_sink(head: u32, top: f32, sum: f32) -> f32 {
    let sink = f32(sinks[head % ITEM_HEADS]);
    let base = maximum(top, sink);
    return select(base + log(sum * exp(top - base) + exp(sink - base)), 0.0, sum == 0.0);
}

// The same of four neighbouring queries.
fn with_sink4(head: u32, top: vec4<f32>, sum: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(with_sink(head, top.x, sum.x), with_sink(head, top.y, sum.y), with_sink(head, top.z, sum.z),
        with_sink(head, top.w, sum.w));
}

fn log_with_sink4(head: u32, top: vec4<f32>, sum: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(log_with_sink(head, top.x, sum.x), log_with_sink(head, top.y, sum.y), log_with_sink(head, top.z, sum.z),
        log_with_sink(head, top.w, sum.w));
}
#endif
