//! Philox 4x32 with ten rounds: Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (2011).

/// Factors of the first and the third word of a counter.
const FACTORS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Increments of a key per round: the golden ratio, and the square root of three less one.
const STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Four random words of a counter under a key.
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let first = u64::from(FACTORS[0]) * u64::from(counter[0]);
        let third = u64::from(FACTORS[1]) * u64::from(counter[2]);
        let high = |product: u64| (product >> 32) as u32;
        counter = [high(third) ^ counter[1] ^ key[0], third as u32, high(first) ^ counter[3] ^ key[1], first as u32];
        key = [key[0].wrapping_add(STEPS[0]), key[1].wrapping_add(STEPS[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers that are published with Random123.
    #[test]
    fn words_are_those_of_random123() {
        let ones = u32::MAX;
        let digits_of_pi = ([0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344], [0xA409_3822, 0x299F_31D0]);
        for ((counter, key), words) in [
            (([0; 4], [0; 2]), [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]),
            (([ones; 4], [ones; 2]), [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]),
            (digits_of_pi, [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1]),
        ] {
            assert_eq!(philox(counter, key), words);
        }
    }
}
