//! Embeds the folder `kernels`, so that adding a kernel text edits no list.

use parallax_build::embed_kernels;

fn main() {
    embed_kernels(&["cu", "cuh"]);
}
