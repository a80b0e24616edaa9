// The backward pass of layer normalisation in pieces of four elements.

#import layernorm/alone
#import layernorm/backward
#import lib/pieces4
