// Hashed columns in pieces of one.

alias numbers = u32;
const PLACES: u32 = 0u;

#import lib/pieces1
#import hash_embedding/chunked
