// What follows a product, in pieces of four elements.

#import lib/pieces4
#import linear/finish
