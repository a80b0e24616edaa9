// Reduction in parts, in pieces of one element.

#import lib/pieces1
#import reduce/parts
