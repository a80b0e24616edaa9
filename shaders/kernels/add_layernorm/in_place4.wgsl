// A sum in place of one of its terms, and its layer normalisation, in pieces of four elements.

#import add_layernorm/sum_in_place
#import layernorm/forward
#import lib/pieces4
