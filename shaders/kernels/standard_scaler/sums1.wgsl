// Sums over the rows of strips, in pieces of one element.

#import lib/pieces1
#import standard_scaler/sums
