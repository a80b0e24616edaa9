// Sums in the element type, in pieces of four elements.

#import lib/pieces4
#import embedding/narrow
