// Sums of stretches in pieces of four elements.

#import lib/pieces4
#import scan/sums
