// A sum and its layer normalisation in pieces of four elements.

#import add_layernorm/sum
#import layernorm/forward
#import lib/pieces4
