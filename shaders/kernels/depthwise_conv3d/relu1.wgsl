// The gradient of ReLU in pieces of one element.

#import depthwise_conv3d/relu
#import lib/pieces1
