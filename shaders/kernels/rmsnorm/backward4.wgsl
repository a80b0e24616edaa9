// The backward pass of RMS normalisation in pieces of four elements.

#import lib/pieces4
#import rmsnorm/backward
