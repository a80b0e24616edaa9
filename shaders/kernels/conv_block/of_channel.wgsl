// Per-channel value as a piece: read as one where channels are last, otherwise repeated.

#if LAST
fn of_channel(number: stored) -> piece {
    return piece(number);
}
#else
fn of_channel(number: elem) -> piece {
    return piece(f32(number));
}
#endif
