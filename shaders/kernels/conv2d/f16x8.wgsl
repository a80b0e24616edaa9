// Operands of an implicit GEMM as in `gather`, for matrix units: eight elements at a time. PACKED: results come in whole vectors
// of eight. WHOLE: besides, tiles are whole in channels and terms. Bounds of positions are always checked.

#import conv2d/around
#import conv2d/epilogue
#import lib/f16x8

@group(0) @binding(0) var<storage, read> source: array<F16x8>;
@group(0) @binding(1) var<storage, read> w: array<F16x8>;
#if PACKED
@group(0) @binding(2) var<storage, read_write> result: array<F16x8>;
#else
@group(0) @binding(2) var<storage, read_write> result: array<f16>;
#endif
#if BIAS
@group(0) @binding(3) var<storage, read> bias: array<f16>;
#endif

// Vectors of four rows.
struct Block {
    x: F16x8,
    y: F16x8,
    z: F16x8,
    w: F16x8,
}

fn f16x8_under(group: u32, channel: u32, image: u32, position: u32, there: bool) -> F16x8 {
    if !there {
        return F16x8();
    }
    return source[source_at(group, channel, image, position) / 8u];
}

fn one_under(group: u32, channel: u32, image: u32, position: u32, there: bool) -> f32 {
    if !there {
        return 0.0;
    }
    let at = source_at(group, channel, image, position);
    return float_in(source[at / 8u], at);
}

// A term of each position, zeros past the last term.
fn term_of_each(known: Known, group: u32, term: u32) -> vec4<f32> {
    if term >= TERMS {
        return vec4<f32>();
    }
    var channel = term / TAPS;
    var tap = term % TAPS;
    if LAST {
        channel = term % FROM_C;
        tap = term / FROM_C;
    }
    let found = under(known, tap);
    return vec4<f32>(
        one_under(group, channel, known.image.x, found.at.x, found.there.x),
        one_under(group, channel, known.image.y, found.at.y, found.there.y),
        one_under(group, channel, known.image.z, found.at.z, found.there.z),
        one_under(group, channel, known.image.w, found.at.w, found.there.w),
    );
}

// Eight terms of each of four positions; the first is a multiple of eight.
fn terms_of_each(known: Known, group: u32, term: u32) -> Block {
    if FROM_C % 8u == 0u {
        if !WHOLE && term >= TERMS {
            return Block();
        }
        let channel = term % FROM_C;
        let found = under(known, term / FROM_C);
        return Block(
            f16x8_under(group, channel, known.image.x, found.at.x, found.there.x),
            f16x8_under(group, channel, known.image.y, found.at.y, found.there.y),
            f16x8_under(group, channel, known.image.z, found.at.z, found.there.z),
            f16x8_under(group, channel, known.image.w, found.at.w, found.there.w),
        );
    }
    let a = term_of_each(known, group, term);
    let b = term_of_each(known, group, term + 1u);
    let c = term_of_each(known, group, term + 2u);
    let d = term_of_each(known, group, term + 3u);
    let e = term_of_each(known, group, term + 4u);
    let f = term_of_each(known, group, term + 5u);
    let g = term_of_each(known, group, term + 6u);
    let h = term_of_each(known, group, term + 7u);
    return Block(
        f16x8(vec4<f32>(a.x, b.x, c.x, d.x), vec4<f32>(e.x, f.x, g.x, h.x)),
        f16x8(vec4<f32>(a.y, b.y, c.y, d.y), vec4<f32>(e.y, f.y, g.y, h.y)),
        f16x8(vec4<f32>(a.z, b.z, c.z, d.z), vec4<f32>(e.z, f.z, g.z, h.z)),
        f16x8(vec4<f32>(a.w, b.w, c.w, d.w), vec4<f32>(e.w, f.w, g.w, h.w)),
    );
}

// A term of eight positions.
fn term_of_8(low: Known, high: Known, group: u32, term: u32) -> F16x8 {
    return f16x8(term_of_each(low, group, term), term_of_each(high, group, term));
}

// Eight terms of a row, the first a multiple of eight.
fn terms_of_row(group: u32, row: u32, term: u32) -> F16x8 {
    if !WHOLE && (row >= TO_C || term >= TERMS) {
        return F16x8();
    }
    let at = (group * TO_C + row) * TERMS + term;
    if TERMS % 8u == 0u {
        return w[at / 8u];
    }
    var all = array<f32, 8>();
    for (var i = 0u; i < min(TERMS - term, 8u); i++) {
        all[i] = float_in(w[(at + i) / 8u], at + i);
    }
    return f16x8_from(all);
}

// Stores eight neighbours: channels of a position, the first a multiple of eight, or positions of a channel.
fn store_f16x8(group: u32, channel: u32, position: u32, low: vec4<f32>, high: vec4<f32>) {
    if (!WHOLE && channel >= TO_C) || position >= POSITIONS {
        return;
    }
    let first = group * TO_C + channel;
    if PACKED {
#if PACKED
        result[result_at(group, channel, position / TO, position % TO) / 8u] = f16x8(epilogue4(first, low), epilogue4(first + FURTHER, high));
#endif
        return;
    }
    for (var i = 0u; i < 8u; i++) {
        let own = channel + select(0u, i, LAST);
        let at = position + select(i, 0u, LAST);
        if own < TO_C && at < POSITIONS {
            let sum = epilogue(group * TO_C + own, select(low[i % 4u], high[i % 4u], i > 3u));
#if !PACKED
            result[result_at(group, own, at / TO, at % TO)] = f16(sum);
#endif
        }
    }
}

// Distance between the channels of the first four of eight neighbours and the others.
const FURTHER: u32 = select(0u, 4u, LAST);

fn epilogue4(channel: u32, sum: vec4<f32>) -> vec4<f32> {
    if LAST {
        return vec4<f32>(
            epilogue(channel, sum.x),
            epilogue(channel + 1u, sum.y),
            epilogue(channel + 2u, sum.z),
            epilogue(channel + 3u, sum.w),
        );
    }
    return vec4<f32>(epilogue(channel, sum.x), epilogue(channel, sum.y), epilogue(channel, sum.z), epilogue(channel, sum.w));
}
