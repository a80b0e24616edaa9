// The gradient of pooling in pieces of one element.

#import lib/pieces1
#import pool/backward

alias whole = u32;
