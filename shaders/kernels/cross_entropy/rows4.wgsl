// Cross-entropy in pieces of four elements.

#import cross_entropy/rows
#import cross_entropy/whole
#import lib/pieces4
