// The gradient of pooling in pieces of four elements.

#import lib/pieces4
#import pool/backward

alias whole = vec4<u32>;
