// Sums over strips of positions, in pieces of four elements.

#import conv_block/gradient_columns
#import lib/pieces4
