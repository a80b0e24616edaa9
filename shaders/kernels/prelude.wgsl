// Appended to every kernel. The same helpers stand under the same names in cuda/kernels/prelude.cuh.

// Flat workgroup index of a launch that was spread over two grid dimensions.
fn flat_group(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y * groups.x + group.x;
}

// The 32-bit finaliser of MurmurHash3.
fn murmur_finalise(id: u32) -> u32 {
    var h = id;
    h = (h ^ (h >> 16u)) * 0x85ebca6bu;
    h = (h ^ (h >> 13u)) * 0xc2b2ae35u;
    return h ^ (h >> 16u);
}
