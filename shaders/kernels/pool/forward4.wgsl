// Pooling in pieces of four elements.

#import lib/pieces4
#import pool/forward
