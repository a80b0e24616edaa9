// A sum in pieces of one element.

#import add_layernorm/add
#import lib/pieces1
