// What a maximum begins with that goes into exponentials. No infinity, although an element may be one: the difference of two is no number,
// and of what is not seen yet nothing may be left. WGSL promises nothing about infinities either.

const LOWEST: f32 = -3.4028234e38;
