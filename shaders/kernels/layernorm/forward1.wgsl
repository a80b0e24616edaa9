// Layer normalisation in pieces of one element.

#import layernorm/forward
#import layernorm/plain
#import lib/pieces1
