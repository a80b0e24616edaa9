// RMS normalisation in pieces of four elements.

#import lib/pieces4
#import rmsnorm/forward
