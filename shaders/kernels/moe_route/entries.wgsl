// Logits with their experts as integers, in the order of choice: the greatest comes first, and zero is no logit. The definition is
// in core/workloads/src/ops/moe_route.
//
// PACKED: f16 leaves the lower 13 bits of an f32 unused, and an entry has its expert there.

#import lib/nan

// Bits of an expert, which rise as experts fall.
const EXPERT_BITS: u32 = 0x1FFFu;

// Number that rises with a float. NaN is the greatest, and both zeros are alike.
fn rising(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    if (bits & 0x7fffffffu) > 0x7f800000u {
        return 0xffffffffu;
    }
    if (bits & 0x7fffffffu) == 0u {
        return 0x80000000u;
    }
    return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

// Float of such a number.
fn falling(number: u32) -> u32 {
    return select(~number, number & 0x7fffffffu, (number & 0x80000000u) != 0u);
}

#if PACKED
alias entry = u32;

fn entry_of(x: f32, expert: u32) -> entry {
    return (rising(x) & ~EXPERT_BITS) | (EXPERT_BITS - expert);
}

fn logit_of(x: entry) -> f32 {
    return bitcast<f32>(falling(x) & ~EXPERT_BITS);
}

fn expert_of(x: entry) -> u32 {
    return EXPERT_BITS - (x & EXPERT_BITS);
}

fn is_entry(x: entry) -> bool {
    return x != 0u;
}

fn earlier(a: entry, b: entry) -> entry {
    return max(a, b);
}

fn later(a: entry, b: entry) -> entry {
    return min(a, b);
}

fn precedes(a: entry, b: entry) -> bool {
    return a > b;
}
#else
alias entry = vec2<u32>;

fn entry_of(x: f32, expert: u32) -> entry {
    return vec2<u32>(rising(x), EXPERT_BITS - expert);
}

fn logit_of(x: entry) -> f32 {
    return bitcast<f32>(falling(x.x));
}

fn expert_of(x: entry) -> u32 {
    return EXPERT_BITS - x.y;
}

fn is_entry(x: entry) -> bool {
    return x.x != 0u;
}

fn precedes(a: entry, b: entry) -> bool {
    return a.x > b.x || (a.x == b.x && a.y > b.y);
}

fn earlier(a: entry, b: entry) -> entry {
    return select(b, a, precedes(a, b));
}

fn later(a: entry, b: entry) -> entry {
    return select(a, b, precedes(a, b));
}
#endif
