// Means of strips and squares around them, in pieces of one element.

#import lib/pieces1
#import standard_scaler/welford
