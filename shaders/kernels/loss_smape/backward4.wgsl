// The gradient of symmetric percentage error in pieces of four elements.

#import lib/pieces4
#import loss_smape/backward
