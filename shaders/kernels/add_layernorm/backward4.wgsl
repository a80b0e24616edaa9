// The backward pass of a sum and its layer normalisation in pieces of four elements.

#import add_layernorm/joined
#import layernorm/backward
#import lib/pieces4
