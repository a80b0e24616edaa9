// Gradients of factors in pieces of four elements.

#import lib/pieces4
#import embedding_bag/factors
