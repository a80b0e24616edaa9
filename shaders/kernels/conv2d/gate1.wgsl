// The gradient before ReLU in pieces of one element.

#import conv2d/gate
#import lib/pieces1
