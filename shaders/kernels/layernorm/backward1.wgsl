// The backward pass of layer normalisation in pieces of one element.

#import layernorm/alone
#import layernorm/backward
#import lib/pieces1
