//! Plans and comparisons of kernel sources from outside, good and hostile.

mod comparing;
mod hostile;
mod planning;

use parallax_lab::{Request, Side};

/// Kernel source with `x` (read), `y` (read_write) and a body that sees the global index `i`.
pub fn text(body: &str) -> String {
    format!(
        "@group(0) @binding(0) var<storage, read> x: array<f32>;\n\
         @group(0) @binding(1) var<storage, read_write> y: array<f32>;\n\
         @compute @workgroup_size(64)\n\
         fn main(@builtin(global_invocation_id) at: vec3<u32>) {{\n\
         let i = at.x;\n\
         {body}\n\
         }}\n"
    )
}

/// A request of two kernel sources, with a short timing of small buffers.
pub fn request(a: &str, b: &str) -> Request {
    let side = |text: &str| Side { text: text.to_owned(), ..Side::default() };
    Request { a: side(a), b: side(b), elements: 4096, budget: 0.2, ..Request::default() }
}
