// The stages of AdamW in pieces of one element.

#import adamw/separate
#import lib/pieces1
