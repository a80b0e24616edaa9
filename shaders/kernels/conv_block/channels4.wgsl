// Numbers of channels applied to images, in pieces of four elements.

#import conv_block/channels
#import lib/pieces4
