// Sums in the element type, in pieces of one element.

#import lib/pieces1
#import embedding/narrow
