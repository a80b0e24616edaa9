// Pooling in pieces of one element.

#import lib/pieces1
#import pool/forward
