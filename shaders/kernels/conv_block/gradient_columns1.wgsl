// Sums over strips of positions, in pieces of one element.

#import conv_block/gradient_columns
#import lib/pieces1
