// Numbers of channels applied to images, in pieces of one element.

#import conv_block/channels
#import lib/pieces1
