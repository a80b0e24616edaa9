// Four elements of a counter, one by one, where their number is no multiple of four. The last counter may have fewer.

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;

fn load_vec4(counter: u32) -> vec4<f32> {
    var four = vec4<f32>();
    for (var i = 0u; i < min(4u, N - 4u * counter); i++) {
        four[i] = f32(x[4u * counter + i]);
    }
    return four;
}

fn store_vec4(counter: u32, four: vec4<f32>) {
    for (var i = 0u; i < min(4u, N - 4u * counter); i++) {
        out[4u * counter + i] = elem(four[i]);
    }
}
