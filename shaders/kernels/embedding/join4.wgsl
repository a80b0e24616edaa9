// Sums of rows from their parts, in pieces of four elements.

#import lib/pieces4
#import embedding/join
