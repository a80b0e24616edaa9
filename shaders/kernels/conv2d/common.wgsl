// Index arithmetic of both layouts, for the variants of conv2d.

const TAPS: u32 = KD * KH * KW;
const FROM: u32 = FROM_D * FROM_H * FROM_W;
const TO: u32 = TO_D * TO_H * TO_W;

// Depth, row and column of a tap.
fn tap_at(tap: u32) -> vec3<u32> {
    if KD == 1u {
        return vec3<u32>(0u, tap / KW, tap % KW);
    }
    return vec3<u32>(tap / (KH * KW), tap / KW % KH, tap % KW);
}

// Index of the weight from a channel of the source to one of the result, both within their group.
fn weight_at(group: u32, own: u32, other: u32, tap: u32) -> u32 {
    let m = group * OUT_C + select(own, other, BACK);
    let c = select(other, own, BACK);
    if LAST {
        return (m * TAPS + tap) * IN_C + c;
    }
    return (m * IN_C + c) * TAPS + tap;
}

// Index of an element of the result (channel within the group, position in its image).
fn result_at(group: u32, channel: u32, image: u32, position: u32) -> u32 {
    if LAST {
        return (image * TO + position) * (GROUPS * TO_C) + group * TO_C + channel;
    }
    return ((image * GROUPS + group) * TO_C + channel) * TO + position;
}

// Index of an element of the source.
fn source_at(group: u32, channel: u32, image: u32, position: u32) -> u32 {
    if LAST {
        return (image * FROM + position) * (GROUPS * FROM_C) + group * FROM_C + channel;
    }
    return ((image * GROUPS + group) * FROM_C + channel) * FROM + position;
}

// Depth, row and column of the source under the first tap of a position of the result. Coordinates before the source wrap around
// and exceed its extent.
fn first_under(position: u32) -> vec3<u32> {
    var at = vec3<u32>(0u, position / TO_W, position % TO_W);
    if TO_D > 1u {
        at = vec3<u32>(position / (TO_H * TO_W), position / TO_W % TO_H, position % TO_W);
    }
    let pad = vec3<u32>(PAD_D, PAD, PAD);
    if BACK {
        return at + pad;
    }
    return at * STRIDE - pad;
}
