// Columns scaled, in pieces of one element.

#import lib/pieces1
#import standard_scaler/scale
