// Sums of stretches in pieces of one element.

#import lib/pieces1
#import scan/sums
