// Rows of tables in pieces of one element.

#import lib/pieces1
#import embedding/rows
