// The gradient of cross-entropy in pieces of four elements.

#import cross_entropy/target4
#import cross_entropy/weights
#import lib/pieces4
