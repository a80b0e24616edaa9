// The gradient of cross-entropy from weights, in pieces of four elements.

#import cross_entropy/subtract
#import cross_entropy/target4
#import lib/pieces4
