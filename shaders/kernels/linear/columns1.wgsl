// Sums of columns in pieces of one element.

#import lib/pieces1
#import linear/columns
