//! Embeds the folder `kernels`, so that adding a kernel text edits no list.

include!("../core/build/kernels.rs");

fn main() {
    embed_kernels(&["wgsl"]);
}
