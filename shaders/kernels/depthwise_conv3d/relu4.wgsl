// The gradient of ReLU in pieces of four elements.

#import depthwise_conv3d/relu
#import lib/pieces4
