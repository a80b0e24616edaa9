// GELU in pieces of one element.

#import gelu/pointwise
#import lib/pieces1
