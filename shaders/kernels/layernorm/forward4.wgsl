// Layer normalisation in pieces of four elements.

#import layernorm/forward
#import layernorm/plain
#import lib/pieces4
