// Sums of columns in pieces of four elements.

#import lib/pieces4
#import linear/columns
