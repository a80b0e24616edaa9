// Backward pass of layer normalisation.

#import layernorm/alone
#import layernorm/row_backward
