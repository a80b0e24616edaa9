// The gradient of what was normalised, in pieces of four elements.

#import conv_block/gradient
#import lib/pieces4
