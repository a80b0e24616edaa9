// Rotary position embedding in pieces of one element.

#import lib/pieces1
#import rope/rotate
