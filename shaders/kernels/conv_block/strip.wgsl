// A workgroup's strip of the elements of a channel, where channels are not last. Its planes are counted as contiguous.

const PLANE_PIECES: u32 = PLANE / WIDTH;

// Part of a channel, and its pieces.
struct Strip {
    channel: u32,
    part: u32,
    begin: u32,
    end: u32,
}

fn strip_of(flat: u32) -> Strip {
    let part = flat % PARTS;
    let begin = part * (STRIP / WIDTH);
    return Strip(flat / PARTS, part, begin, begin + min(STRIP, ROWS - part * STRIP) / WIDTH);
}

// Index of a channel's piece in the array.
fn place_in(channel: u32, at: u32) -> u32 {
    return (at / PLANE_PIECES * CHANNELS + channel) * PLANE_PIECES + at % PLANE_PIECES;
}
