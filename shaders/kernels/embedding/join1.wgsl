// Sums of rows from their parts, in pieces of one element.

#import lib/pieces1
#import embedding/join
