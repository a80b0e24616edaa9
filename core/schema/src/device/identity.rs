//! Identity of a card among cards of the same kind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Location of a card and its name in the driver, as far as the interface reports them. A browser reports nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Identity {
    /// PCI address: domain, bus, device and function in lower-case hexadecimal, as in `0000:65:00.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// Identifier from the driver, as in `GPU-4f3b…`; `MIG-…` for a slice of a card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// PCI numbers of vendor and model, which all cards of one kind share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<[u32; 2]>,
}

impl Identity {
    /// Returns the identifier of the card, or else its address; `None` if both are unknown.
    pub fn card(&self) -> Option<&str> {
        self.uuid.as_deref().or(self.pci.as_deref())
    }

    /// Whether no field is known.
    pub fn is_unknown(&self) -> bool {
        *self == Identity::default()
    }

    /// Whether it is a slice of a card (MIG), which shares the card's PCI address with other slices.
    pub fn is_slice(&self) -> bool {
        self.uuid.as_ref().is_some_and(|uuid| uuid.starts_with("MIG-"))
    }

    /// Whether both are the same device; `None` if unknown. Two slices of a card are two devices.
    pub fn same(&self, other: &Identity) -> Option<bool> {
        let slice = self.is_slice() || other.is_slice();
        // A slice and another device at its card's address may be the same or not.
        let at = equal(&self.pci, &other.pci).filter(|same| !(*same && slice));
        equal(&self.uuid, &other.uuid).or(at).or_else(|| self.other_model(other))
    }

    /// Whether it is `board` or a slice of it; `None` if unknown.
    pub fn is_on(&self, board: &Identity) -> Option<bool> {
        if !self.is_slice() {
            return self.same(board);
        }
        equal(&self.pci, &board.pci).or_else(|| self.other_model(board))
    }

    /// Returns `Some(false)` for two different models, which settles the question.
    fn other_model(&self, other: &Identity) -> Option<bool> {
        self.model.zip(other.model).filter(|(a, b)| a != b).map(|_| false)
    }
}

fn equal(a: &Option<String>, b: &Option<String>) -> Option<bool> {
    Some(a.as_ref()? == b.as_ref()?)
}

/// Converts a PCI address of any interface to the form of [`Identity`]. The input may have eight digits of domain or four,
/// capital or small letters, and may lack the domain and the function. Any other input gives `None`.
pub fn pci_address(text: &str) -> Option<String> {
    let (rest, function) = text.rsplit_once('.').unwrap_or((text, "0"));
    let mut parts = rest.rsplit(':');
    let (device, bus, domain) = (parts.next()?, parts.next()?, parts.next().unwrap_or("0"));
    let number = |digits: &str| u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
    let (domain, bus, device, function) = (number(domain)?, number(bus)?, number(device)?, number(function)?);
    let fits = parts.next().is_none() && bus < 256 && device < 32 && function < 8;
    fits.then(|| format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_interface_are_one() {
        for text in ["0000:65:00.0", "00000000:65:00.0", "65:00.0", "65:00", "0000:65:00"] {
            assert_eq!(pci_address(text).as_deref(), Some("0000:65:00.0"), "{text}");
        }
        assert_eq!(pci_address("00000001:AB:1F.7").as_deref(), Some("0001:ab:1f.7"));
        for text in ["", "H200", "1", "GPU-4f3b", "0:0:0:0.0", "100:00.0", "65:20.0", "+1:00.0", "65:00.9", "65:00.0.0"]
        {
            assert_eq!(pci_address(text), None, "{text}");
        }
    }

    #[test]
    fn cards_are_told_apart_as_far_as_anything_tells() {
        let of = |pci: Option<&str>, uuid: Option<&str>, model| Identity {
            pci: pci.map(str::to_owned),
            uuid: uuid.map(str::to_owned),
            model,
        };
        let h200 = Some([0x10de, 0x2335]);
        let cuda = of(Some("0000:65:00.0"), Some("GPU-1"), None);
        for (other, same) in [
            (of(Some("0000:65:00.0"), None, h200), Some(true)),
            (of(Some("0000:66:00.0"), None, h200), Some(false)),
            (of(None, Some("GPU-1"), None), Some(true)),
            (of(None, Some("GPU-2"), None), Some(false)),
            (of(None, None, h200), None),
            (Identity::default(), None),
        ] {
            assert_eq!((cuda.same(&other), other.same(&cuda)), (same, same), "{other:?}");
        }
        let slice = |uuid| of(Some("0000:65:00.0"), Some(uuid), None);
        let [one, two] = [slice("MIG-1"), slice("MIG-2")];
        assert_eq!((one.same(&one), one.same(&two), one.same(&cuda)), (Some(true), Some(false), Some(false)));
        assert_eq!(one.same(&of(Some("0000:65:00.0"), None, h200)), None, "the card, or another slice of it");
        assert_eq!(one.same(&of(Some("0000:66:00.0"), None, h200)), Some(false));
        let elsewhere = of(Some("0000:66:00.0"), Some("GPU-1"), None);
        assert_eq!((one.is_on(&cuda), one.is_on(&elsewhere), cuda.is_on(&cuda)), (Some(true), Some(false), Some(true)));
        assert_eq!(cuda.same(&elsewhere), Some(true), "the same card in another place");
        let (a, b) = (of(None, None, h200), of(None, None, Some([0x1002, 1])));
        assert_eq!((a.same(&b), a.same(&a)), (Some(false), None), "models differ, or say nothing");
    }
}
