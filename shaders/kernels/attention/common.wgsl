// Shared by the variants of attention: bindings and the mask.

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
@group(0) @binding(4) var<storage, read_write> scores: array<f32>;

// Number of keys that query i sees: all, or those up to the diagonal that ends at the last key.
fn visible(i: u32) -> u32 {
    if CAUSAL == 0u {
        return T;
    }
    return min(T, max(i + 1u + T, S) - S);
}
