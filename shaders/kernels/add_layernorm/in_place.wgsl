// A sum in place of one of its terms, and its layer normalisation.

#import add_layernorm/sum_in_place
#import layernorm/row
