// Hashed columns in pieces of four.

alias numbers = vec4<u32>;
const PLACES: vec4<u32> = vec4<u32>(0u, 1u, 2u, 3u);

#import lib/pieces4
#import hash_embedding/chunked
