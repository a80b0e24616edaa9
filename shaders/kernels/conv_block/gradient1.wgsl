// The gradient of what was normalised, in pieces of one element.

#import conv_block/gradient
#import lib/pieces1
