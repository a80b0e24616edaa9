// The stages of AdamW in pieces of four elements.

#import adamw/separate
#import lib/pieces4
