// Gradients of factors in pieces of one element.

#import lib/pieces1
#import embedding_bag/factors
