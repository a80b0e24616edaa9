// A sum and its layer normalisation in pieces of one element.

#import add_layernorm/sum
#import layernorm/forward
#import lib/pieces1
