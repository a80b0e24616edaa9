// Rows of tables in pieces of sixteen bytes.

alias stored = vec4<u32>;

#import embedding/rows
