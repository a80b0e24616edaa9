// Columns scaled, in pieces of four elements.

#import lib/pieces4
#import standard_scaler/scale
