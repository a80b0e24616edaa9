// Sum in place of a term, and its layer normalisation.

#import add_layernorm/sum_in_place
#import layernorm/row
