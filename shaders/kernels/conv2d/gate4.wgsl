// The gradient before ReLU in pieces of four elements.

#import conv2d/gate
#import lib/pieces4
