// What follows a product, in pieces of one element.

#import lib/pieces1
#import linear/finish
