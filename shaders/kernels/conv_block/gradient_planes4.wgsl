// Sums over strips of planes, in pieces of four elements.

#import conv_block/gradient_planes
#import lib/pieces4
