// Logits in pieces of four.

@group(0) @binding(0) var<storage, read> logits: array<vec4<elem>>;

fn logit(at: u32) -> f32 {
    return f32(logits[at / 4u][at % 4u]);
}
