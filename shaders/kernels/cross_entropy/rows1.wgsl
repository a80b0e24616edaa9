// Cross-entropy in pieces of one element.

#import cross_entropy/rows
#import cross_entropy/single
#import lib/pieces1
