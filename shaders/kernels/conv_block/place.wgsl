// Pieces of a thread, all of the same channels, in either layout: every TOGETHER-th of a line of LINE pieces. A line is a plane,
// or everything where channels are last.

// Pieces of a row of channels, where these are last.
const CHANNEL_PIECES: u32 = max(CHANNELS / WIDTH, 1u);

// Pieces of a thread, and the index of its channels.
struct Place {
    begin: u32,
    end: u32,
    channel: u32,
}

fn place_of(thread: u32) -> Place {
    let line = thread / TOGETHER;
    if line >= LINES {
        return Place();
    }
    let channel = select(line % CHANNELS, thread % CHANNEL_PIECES, LAST);
    return Place(line * LINE + thread % TOGETHER, (line + 1u) * LINE, channel);
}
