// A workgroup's strip of the elements of a channel, where channels are not last: its planes are counted one behind the other.

const PLANE_PIECES: u32 = PLANE / WIDTH;

// A part of a channel, and the pieces that belong to it.
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

// Where a channel's piece is among all.
fn place_in(channel: u32, at: u32) -> u32 {
    return (at / PLANE_PIECES * CHANNELS + channel) * PLANE_PIECES + at % PLANE_PIECES;
}
