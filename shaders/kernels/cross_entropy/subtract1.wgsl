// The gradient of cross-entropy from weights, in pieces of one element.

#import cross_entropy/subtract
#import cross_entropy/target1
#import lib/pieces1
