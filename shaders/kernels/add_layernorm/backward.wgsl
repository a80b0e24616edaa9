// Backward pass of a sum and its layer normalisation.

#import add_layernorm/joined
#import layernorm/row_backward
