// Sums over sorted items, in pieces of four elements.

alias numbers = vec4<u32>;

#import lib/pieces4
#import embedding/segments
