// Initial value of a maximum that goes into exponentials. It is finite, although elements may be infinite: the difference of two
// infinities is NaN, and WGSL does not guarantee infinities.

const LOWEST: f32 = -3.4028234e38;
