// A number of each channel as a piece: where channels are last it is read as one, otherwise it fills one.

#when LAST fn of_channel(number: stored) -> piece {
#when LAST     return piece(number);
#when LAST }
#when !LAST fn of_channel(number: elem) -> piece {
#when !LAST     return piece(f32(number));
#when !LAST }
