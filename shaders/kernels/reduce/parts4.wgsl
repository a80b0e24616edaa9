// Reduction in parts, in pieces of four elements.

#import lib/pieces4
#import reduce/parts
