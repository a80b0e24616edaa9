// The look-up of categories in pieces of four elements.

#import lib/pieces4
#import train_step/lookup
