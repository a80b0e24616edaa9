// Layer normalisation of rows.

#import layernorm/plain
#import layernorm/row
