// Index of a workgroup in its launch.

// Flat workgroup index of a launch over two grid dimensions.
fn flat_group(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y * groups.x + group.x;
}
