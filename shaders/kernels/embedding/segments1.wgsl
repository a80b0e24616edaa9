// Sums over sorted items, in pieces of one element.

alias numbers = u32;

#import lib/pieces1
#import embedding/segments
