// Elements moved from one order to another, in pieces of four elements.

#import lib/pieces4
#import lib/rearrange
