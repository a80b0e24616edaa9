// Codes and scales of fp8 GEMMs. A is M rows of WORDS words of four codes, and B is N such rows. Codes are e4m3, and e5m2 of A with
// A_E5M2. Scales are one each, one for each row (BY_ROW), or one for each block (BY_BLOCK): of 128 codes of A, and of 128 by 128 of B.

@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read> b: array<u32>;
@group(0) @binding(2) var<storage, read> a_scale: array<f32>;
@group(0) @binding(3) var<storage, read> b_scale: array<f32>;

// Codes in a block along K, and rows of B.
const SPAN: u32 = 128u;

// Four numbers of a word of e4m3 codes. Normal ones differ from f32 in the bias of the exponent alone. Those below are multiples of 2^-9.
fn decoded(word: u32) -> vec4<f32> {
    let codes = vec4<u32>(word, word >> 8u, word >> 16u, word >> 24u);
    let sizes = codes & vec4<u32>(0x7fu);
    let normal = (sizes << vec4<u32>(20u)) + vec4<u32>(120u << 23u);
    let small = bitcast<vec4<u32>>(vec4<f32>(sizes) * vec4<f32>(0.001953125));
    let finite = select(normal, small, sizes < vec4<u32>(8u));
    let bits = select(finite, vec4<u32>(0x7fc00000u), sizes == vec4<u32>(0x7fu));
    return bitcast<vec4<f32>>(bits | ((codes & vec4<u32>(0x80u)) << vec4<u32>(24u)));
}

// Four numbers of a word of A. The last exponent of e5m2 has infinity and NaN, as that of f32.
fn decoded_of_a(word: u32) -> vec4<f32> {
#if A_E5M2
    let codes = vec4<u32>(word, word >> 8u, word >> 16u, word >> 24u);
    let sizes = codes & vec4<u32>(0x7fu);
    let normal = (sizes << vec4<u32>(21u)) + vec4<u32>(112u << 23u);
    let small = bitcast<vec4<u32>>(vec4<f32>(sizes) * vec4<f32>(0.0000152587890625));
    let finite = select(normal, small, sizes < vec4<u32>(4u));
    let bits = select(finite, (sizes << vec4<u32>(21u)) | vec4<u32>(0x7f800000u), sizes >= vec4<u32>(0x7cu));
    return bitcast<vec4<f32>>(bits | ((codes & vec4<u32>(0x80u)) << vec4<u32>(24u)));
#else
    return decoded(word);
#endif
}

// Scale of part `part` of a row of A.
fn scale_of_a(row: u32, part: u32) -> f32 {
#if BY_BLOCK
    return a_scale[row * PARTS + part];
#else
#if BY_ROW
    return a_scale[row];
#else
    return a_scale[0];
#endif
#endif
}

// Scale of part `part` of a row of B.
fn scale_of_b(col: u32, part: u32) -> f32 {
#if BY_BLOCK
    return b_scale[col / SPAN * PARTS + part];
#else
#if BY_ROW
    return b_scale[col];
#else
    return b_scale[0];
#endif
#endif
}
