// GELU in pieces of four elements.

#import gelu/pointwise
#import lib/pieces4
