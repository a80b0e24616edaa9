// Random words by counter: Philox 4x32 with ten rounds, of Salmon, Moraes, Dror and Shaw (2011).

// Upper half of a 64-bit product, by halves of 16 bits: WGSL has no 64-bit integers.
fn multiply_high(a: u32, b: u32) -> u32 {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let first = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let second = (a & 0xffffu) * (b >> 16u) + (first & 0xffffu);
    return (a >> 16u) * (b >> 16u) + (first >> 16u) + (second >> 16u);
}

// The four random words of a counter under a key.
fn philox(counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
    var words = counter;
    var step = key;
    for (var round = 0u; round < 10u; round++) {
        let first = multiply_high(0xd2511f53u, words.x);
        let third = multiply_high(0xcd9e8d57u, words.z);
        words = vec4<u32>(
            third ^ words.y ^ step.x,
            0xcd9e8d57u * words.z,
            first ^ words.w ^ step.y,
            0xd2511f53u * words.x,
        );
        step += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return words;
}
