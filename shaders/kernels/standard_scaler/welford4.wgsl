// Means of strips and squares around them, in pieces of four elements.

#import lib/pieces4
#import standard_scaler/welford
