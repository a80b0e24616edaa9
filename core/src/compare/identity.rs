//! Whether two runs were on the same GPU, as far as names tell.

use crate::record::Run;

/// Words that one interface adds to a device's name and another leaves out.
const FURNITURE: [&str; 9] = ["nvidia", "amd", "ati", "intel", "corporation", "inc", "r", "tm", "graphics"];

/// A device's name without vendor, trade marks and what drivers put in parentheses: `NVIDIA H200` and `H200` are one.
pub fn normalised(name: &str) -> String {
    let mut depth = 0u32;
    let name = name.to_lowercase();
    let outside = name.chars().filter(|c| match c {
        '(' | '[' => {
            depth += 1;
            false
        }
        ')' | ']' => {
            depth = depth.saturating_sub(1);
            false
        }
        _ => depth == 0,
    });
    let outside: String = outside.collect();
    let words = outside.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty() && !FURNITURE.contains(w));
    let left = words.collect::<Vec<_>>().join(" ");
    if left.is_empty() { name } else { left }
}

/// Whether two runs were on the same card: by its address where both tell it, else by the names that somebody gave it, else by
/// its own.
pub fn same_device(a: &Run, b: &Run) -> bool {
    same_card(a, b).unwrap_or_else(|| match (a.given_name(), b.given_name()) {
        (Some(a), Some(b)) => a == b,
        _ => normalised(&a.device().name) == normalised(&b.device().name),
    })
}

/// Whether two runs were on the same card; `None` where only names could tell.
pub fn same_card(a: &Run, b: &Run) -> Option<bool> {
    a.device().identity.same(&b.device().identity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::called as on;

    #[test]
    fn a_given_name_tells_devices_of_one_kind_apart() {
        assert!(same_device(&on("cuda", "X", ""), &on("cuda", "X", "Ann's")), "one of them says nothing");
        assert!(!same_device(&on("cuda", "X", "Bob's"), &on("cuda", "X", "Ann's")));
        assert!(same_device(&on("cuda", "X", "Ann's"), &on("browser", "some GPU", "Ann's")));
    }

    #[test]
    fn one_device_under_several_names() {
        assert_eq!(normalised("NVIDIA H200"), normalised("h200"));
        assert_eq!(normalised("Intel(R) Arc(tm) A770 Graphics (DG2)"), "arc a770");
        assert_eq!(normalised("llvmpipe (LLVM 15.0.6, 256 bits)"), normalised("llvmpipe (LLVM 19.1, 128 bits)"));
        assert_ne!(normalised("NVIDIA H100 PCIe"), normalised("NVIDIA H100 80GB HBM3"));
        assert_eq!(normalised("NVIDIA (R)"), "nvidia (r)", "a name of nothing but furniture stays whole");
    }
}
