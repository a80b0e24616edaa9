// The backward pass of a sum and its layer normalisation in pieces of one element.

#import add_layernorm/joined
#import layernorm/backward
#import lib/pieces1
