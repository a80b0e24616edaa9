//! Identity of the GPUs of two runs, from addresses and names.

use parallax_schema::record::Run;

/// Words that one interface adds to a device's name and another omits.
const FURNITURE: [&str; 9] = ["nvidia", "amd", "ati", "intel", "corporation", "inc", "r", "tm", "graphics"];

/// Returns a device's name without vendor, trade marks and parentheses of drivers: `NVIDIA H200` and `H200` are equal.
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

/// Returns whether two runs were on the same card. The criteria, in order: the card's address if both runs have it, the given
/// names, the device names.
pub fn same_device(a: &Run, b: &Run) -> bool {
    same_card(a, b).unwrap_or_else(|| match (a.given_name(), b.given_name()) {
        (Some(a), Some(b)) => a == b,
        _ => normalised(&a.device().name) == normalised(&b.device().name),
    })
}

/// Returns whether two runs were on the same card; `None` if only names are known. Cards of two machines may have the same address,
/// so an address is no evidence if the names differ.
pub fn same_card(a: &Run, b: &Run) -> Option<bool> {
    let (a, b) = (a.device(), b.device());
    let same = a.identity.same(&b.identity)?;
    let by_address = a.identity.uuid.is_none() || b.identity.uuid.is_none();
    (!same || !by_address || normalised(&a.name) == normalised(&b.name)).then_some(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::called as on;

    #[test]
    fn a_given_name_tells_devices_of_one_kind_apart() {
        assert!(same_device(&on("cuda", "X", ""), &on("cuda", "X", "Ann's")), "one of them says nothing");
        assert!(!same_device(&on("cuda", "X", "Bob's"), &on("cuda", "X", "Ann's")));
        assert!(same_device(&on("cuda", "X", "Ann's"), &on("browser", "some GPU", "Ann's")));
    }

    #[test]
    fn cards_of_two_machines_may_have_one_address() {
        let at = |device: &str, uuid: Option<&str>| {
            let mut run = on("wgpu", device, "");
            run.devices[0].identity.pci = Some("0000:00:06.0".to_owned());
            run.devices[0].identity.uuid = uuid.map(str::to_owned);
            run
        };
        let (h100, h200) = (at("NVIDIA H100 80GB HBM3", None), at("NVIDIA H200", None));
        assert!(!same_device(&h100, &h200) && same_card(&h100, &h200).is_none());
        assert_eq!(same_card(&h200, &at("H200", Some("GPU-1"))), Some(true));
        assert_eq!(same_card(&at("a", Some("GPU-1")), &at("b", Some("GPU-1"))), Some(true));
        assert_eq!(same_card(&at("a", Some("GPU-1")), &at("a", Some("GPU-2"))), Some(false));
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
