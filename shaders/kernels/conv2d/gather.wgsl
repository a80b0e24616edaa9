// Operands of an implicit GEMM of filters and pixels, for kernels that stage both. A row of filters is a channel of the result,
// and a term a channel of the source at a tap. The matrix of pixels is never stored: pixels are gathered as they are staged.

#import conv2d/around

@group(0) @binding(0) var<storage, read> source: array<vec4<elem>>;
@group(0) @binding(1) var<storage, read> w: array<vec4<elem>>;

// Neighbouring terms are neighbouring channels of the source, four per vector.
const VECTORS: bool = LAST && FROM_C % 4u == 0u;

// Four terms of each of four positions.
struct Block {
    x: vec4<elem>,
    y: vec4<elem>,
    z: vec4<elem>,
    w: vec4<elem>,
}

fn four(group: u32, channel: u32, image: u32, position: u32, there: bool) -> vec4<elem> {
    if !there {
        return vec4<elem>();
    }
    return source[source_at(group, channel, image, position) / 4u];
}

fn one(group: u32, channel: u32, image: u32, position: u32, there: bool) -> elem {
    if !there {
        return elem();
    }
    let at = source_at(group, channel, image, position);
    return source[at / 4u][at % 4u];
}

// A term of each position, zeros past the last term.
fn term_of_each(known: Known, group: u32, term: u32) -> vec4<elem> {
    if term >= TERMS {
        return vec4<elem>();
    }
    var channel = term / TAPS;
    var tap = term % TAPS;
    if LAST {
        channel = term % FROM_C;
        tap = term / FROM_C;
    }
    let found = under(known, tap);
    return vec4<elem>(
        one(group, channel, known.image.x, found.at.x, found.there.x),
        one(group, channel, known.image.y, found.at.y, found.there.y),
        one(group, channel, known.image.z, found.at.z, found.there.z),
        one(group, channel, known.image.w, found.at.w, found.there.w),
    );
}

// Four terms of each position, the first a multiple of four.
fn terms_of_each(known: Known, group: u32, term: u32) -> Block {
    if VECTORS {
        if term >= TERMS {
            return Block();
        }
        let channel = term % FROM_C;
        let found = under(known, term / FROM_C);
        return Block(
            four(group, channel, known.image.x, found.at.x, found.there.x),
            four(group, channel, known.image.y, found.at.y, found.there.y),
            four(group, channel, known.image.z, found.at.z, found.there.z),
            four(group, channel, known.image.w, found.at.w, found.there.w),
        );
    }
    let a = term_of_each(known, group, term);
    let b = term_of_each(known, group, term + 1u);
    let c = term_of_each(known, group, term + 2u);
    let d = term_of_each(known, group, term + 3u);
    return Block(
        vec4<elem>(a.x, b.x, c.x, d.x),
        vec4<elem>(a.y, b.y, c.y, d.y),
        vec4<elem>(a.z, b.z, c.z, d.z),
        vec4<elem>(a.w, b.w, c.w, d.w),
    );
}

fn weight(group: u32, row: u32, term: u32) -> elem {
    if row >= TO_C || term >= TERMS {
        return elem();
    }
    var other = term / TAPS;
    var tap = term % TAPS;
    if LAST {
        other = term % FROM_C;
        tap = term / FROM_C;
    }
    let at = weight_at(group, row, other, tap);
    return w[at / 4u][at % 4u];
}

// Four terms of a row, the first a multiple of four.
fn terms_of_row(group: u32, row: u32, term: u32) -> vec4<elem> {
    if !BACK && TERMS % 4u == 0u {
        // They are contiguous.
        if row >= TO_C || term >= TERMS {
            return vec4<elem>();
        }
        return w[((group * TO_C + row) * TERMS + term) / 4u];
    }
    return vec4<elem>(
        weight(group, row, term),
        weight(group, row, term + 1u),
        weight(group, row, term + 2u),
        weight(group, row, term + 3u),
    );
}
