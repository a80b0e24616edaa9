// Four elements of a counter, moved as one.

@group(0) @binding(0) var<storage, read> x: array<vec4<elem>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<elem>>;

fn load_vec4(counter: u32) -> vec4<f32> {
    return vec4<f32>(x[counter]);
}

fn store_vec4(counter: u32, four: vec4<f32>) {
    out[counter] = vec4<elem>(four);
}
