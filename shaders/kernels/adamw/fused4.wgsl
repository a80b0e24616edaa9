// A step of AdamW in pieces of four elements.

#import adamw/fused
#import lib/pieces4
