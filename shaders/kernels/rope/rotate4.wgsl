// Rotary position embedding in pieces of four elements.

#import lib/pieces4
#import rope/rotate
