// Moments of strips of planes, in pieces of four elements.

#import conv_block/planes
#import lib/pieces4
