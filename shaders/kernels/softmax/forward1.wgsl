// Softmax, forward, in pieces of one element.

#import lib/pieces1
#import softmax/forward
