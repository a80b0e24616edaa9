// Hashes of numbers.

// The 32-bit finaliser of MurmurHash3.
fn murmur_finalise(id: u32) -> u32 {
    var h = id;
    h = (h ^ (h >> 16u)) * 0x85ebca6bu;
    h = (h ^ (h >> 13u)) * 0xc2b2ae35u;
    return h ^ (h >> 16u);
}
