// A sum in pieces of four elements.

#import add_layernorm/add
#import lib/pieces4
