// Symmetric percentage error in pieces of one element.

#import lib/pieces1
#import loss_smape/forward
