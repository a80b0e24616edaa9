// A number of each channel as a piece: where channels are last it is read as one, otherwise it fills one.

#if LAST
fn of_channel(number: stored) -> piece {
    return piece(number);
}
#else
fn of_channel(number: elem) -> piece {
    return piece(f32(number));
}
#endif
