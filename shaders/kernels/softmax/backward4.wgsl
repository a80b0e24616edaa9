// Softmax, backward, in pieces of four elements.

#import lib/pieces4
#import softmax/backward
