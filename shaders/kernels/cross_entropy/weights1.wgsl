// The gradient of cross-entropy in pieces of one element.

#import cross_entropy/target1
#import cross_entropy/weights
#import lib/pieces1
