// The look-up of categories in pieces of one element.

#import lib/pieces1
#import train_step/lookup
