// The backward pass of RMS normalisation in pieces of one element.

#import lib/pieces1
#import rmsnorm/backward
