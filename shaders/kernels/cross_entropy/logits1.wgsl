// Logits in pieces of one.

@group(0) @binding(0) var<storage, read> logits: array<elem>;

fn logit(at: u32) -> f32 {
    return f32(logits[at]);
}
