// A step of AdamW in pieces of one element.

#import adamw/fused
#import lib/pieces1
