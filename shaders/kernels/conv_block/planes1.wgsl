// Moments of strips of planes, in pieces of one element.

#import conv_block/planes
#import lib/pieces1
