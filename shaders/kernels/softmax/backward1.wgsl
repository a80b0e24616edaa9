// Softmax, backward, in pieces of one element.

#import lib/pieces1
#import softmax/backward
