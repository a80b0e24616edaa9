// Sum and its layer normalisation in one stage.

#import add_layernorm/sum
#import layernorm/row
