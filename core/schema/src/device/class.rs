//! Device classes: one name for devices of a kind, to which a tuning from one of them applies.

use super::DeviceInfo;

/// Class of all devices behind a browser.
pub const BROWSER: &str = "browser";

impl DeviceInfo {
    /// Returns the interface with its version, and the driver where it is known.
    pub fn interface(&self) -> String {
        format!("{} {}", self.api, self.driver).trim().to_owned()
    }

    /// Returns the device's class, for file names: `nvidia-h200`, `llvmpipe`, `browser`.
    ///
    /// It is the driver's name in small letters, without bracketed parts (versions, trademarks, the driver's own name). A hyphen
    /// replaces characters that are neither letter nor digit. Browsers hide the device's name and put checks of their own into
    /// every kernel, so they are one class.
    pub fn class(&self) -> String {
        if self.api == "WebGPU" {
            return BROWSER.to_owned();
        }
        let (mut name, mut depth) = (String::new(), 0u32);
        for letter in self.name.chars() {
            match letter {
                '(' | '[' => depth += 1,
                ')' | ']' => depth = depth.saturating_sub(1),
                _ if depth > 0 => {}
                letter if letter.is_ascii_alphanumeric() => name.push(letter.to_ascii_lowercase()),
                _ if !name.is_empty() && !name.ends_with('-') => name.push('-'),
                _ => {}
            }
        }
        match name.trim_end_matches('-') {
            "" => "unknown".to_owned(),
            name => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{caps, device};

    fn class(name: &str, api: &str) -> String {
        DeviceInfo { name: name.to_owned(), api: api.to_owned(), ..device(caps()) }.class()
    }

    #[test]
    fn devices_of_a_kind_share_a_name_that_can_name_a_file() {
        for (name, api, want) in [
            ("NVIDIA H200", "CUDA 13.0", "nvidia-h200"),
            ("NVIDIA H200", "Vulkan", "nvidia-h200"),
            ("NVIDIA H200", "WebGPU", "browser"),
            ("llvmpipe (LLVM 15.0.7, 256 bits)", "Vulkan", "llvmpipe"),
            ("llvmpipe (LLVM 20.1.2, 512 bits)", "Vulkan", "llvmpipe"),
            ("AMD Radeon RX 7900 XTX (RADV NAVI31)", "Vulkan", "amd-radeon-rx-7900-xtx"),
            ("Intel(R) UHD Graphics 770 (ADL-S GT1)", "Vulkan", "intel-uhd-graphics-770"),
            ("Apple M2 Pro", "Metal", "apple-m2-pro"),
            ("../../etc", "Vulkan", "etc"),
            ("", "Vulkan", "unknown"),
        ] {
            assert_eq!(class(name, api), want, "{name}");
        }
    }
}
