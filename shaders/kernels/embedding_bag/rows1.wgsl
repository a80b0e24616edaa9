// Bags of rows in pieces of one element.

#import lib/pieces1
#import embedding_bag/rows
