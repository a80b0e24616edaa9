// Sums over strips of planes, in pieces of one element.

#import conv_block/gradient_planes
#import lib/pieces1
