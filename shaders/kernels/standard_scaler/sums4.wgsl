// Sums over the rows of strips, in pieces of four elements.

#import lib/pieces4
#import standard_scaler/sums
