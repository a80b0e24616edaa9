// Elements moved from one order to another, in pieces of one element.

#import lib/pieces1
#import lib/rearrange
