// Keys of 32 bits in the order of numbers. NaN has the largest key, whatever its bits, and zeros of either sign have one key. No
// number has the key zero.

const SIGN: u32 = 0x80000000u;

fn key_of(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    let rising = select(bits | SIGN, ~bits, bits >= SIGN);
    return select(select(rising, SIGN, magnitude == 0u), 0xffffffffu, magnitude > 0x7f800000u);
}
