//! Browsers of the Chromium family: flags of their start.

use parallax_schema::device::BrowserMode;

use super::BrowserOptions;
use super::process::is_root;

/// Flags of every start: no window, no traffic of the browser itself, no throttling.
pub(super) const FLAGS: [&str; 13] = [
    "--headless",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-quic",
    "--metrics-recording-only",
    "--mute-audio",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
];

/// Enables the WebGPU of a stock visitor, on platforms where it is behind a flag.
const VISITOR: &str = "--enable-features=WebGPUService";
/// Disables the rounding of timestamps, and exposes the device's name. Every run records the measured resolution of the
/// clock.
const DEVELOPER: &str = "--enable-webgpu-developer-features";
/// Enables features that no page should have, among them software adapters.
const UNSAFE: &str = "--enable-unsafe-webgpu";
/// Toggles of Dawn for matrix operations: experimental features, f16 on drivers that Dawn distrusts, and the memory
/// model of their definition.
const MATRICES: &str = "--enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia,use_vulkan_memory_model";

/// Flags for Vulkan without a display, which Chromium on Linux may need to find the GPU.
pub const VULKAN: [&str; 4] =
    ["--enable-features=Vulkan", "--use-angle=vulkan", "--disable-vulkan-surface", "--ignore-gpu-blocklist"];

/// Returns the flags that depend on the browser mode and on the user's privileges.
pub fn flags(options: &BrowserOptions) -> Vec<String> {
    let mut flags = options.flags.clone();
    let of_reach: &[&str] = match options.reach {
        BrowserMode::Stock => &[VISITOR],
        BrowserMode::Developer => &[VISITOR, DEVELOPER],
        BrowserMode::Unsafe => &[VISITOR, DEVELOPER, UNSAFE, MATRICES],
    };
    let of_software: &[&str] = if options.software { &[UNSAFE, "--use-webgpu-adapter=swiftshader"] } else { &[] };
    let more = of_reach.iter().chain(of_software).filter(|flag| !options.flags.iter().any(|given| given == *flag));
    flags.extend(more.map(|flag| (*flag).to_owned()));
    if is_root() {
        // The sandbox refuses to start for root, the usual user in containers.
        flags.push("--no-sandbox".to_owned());
    }
    merge_features(&flags)
}

/// Merges several `--enable-features=` flags into one, because a browser uses only the last. The order is otherwise
/// kept.
fn merge_features(flags: &[String]) -> Vec<String> {
    const MERGED: [&str; 3] = ["--enable-features=", "--disable-features=", "--enable-dawn-features="];
    let mut merged: Vec<String> = Vec::new();
    for flag in flags {
        let prefix = MERGED.iter().find(|p| flag.starts_with(**p));
        let earlier = prefix.and_then(|p| merged.iter_mut().find(|m| m.starts_with(*p)).zip(Some(p)));
        match earlier {
            Some((earlier, prefix)) => {
                earlier.push(',');
                earlier.push_str(&flag[prefix.len()..]);
            }
            None => merged.push(flag.clone()),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_lists_are_joined_and_nothing_else_changes() {
        let flags =
            ["--enable-features=A", "--x", "--enable-features=B,C", "--enable-dawn-features=d"].map(str::to_owned);
        assert_eq!(merge_features(&flags), ["--enable-features=A,B,C", "--x", "--enable-dawn-features=d"]);
    }

    #[test]
    fn only_who_asks_for_experiments_gets_their_flags() {
        let of = |reach, software| {
            let options = BrowserOptions { reach, software, ..BrowserOptions::default() };
            flags(&options).into_iter().filter(|flag| flag != "--no-sandbox").collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(BrowserMode::Stock, false), VISITOR);
        assert_eq!(of(BrowserMode::Developer, false), format!("{VISITOR} {DEVELOPER}"));
        assert_eq!(of(BrowserMode::Unsafe, false), format!("{VISITOR} {DEVELOPER} {UNSAFE} {MATRICES}"));
        let software = "--use-webgpu-adapter=swiftshader";
        assert_eq!(of(BrowserMode::Developer, true), format!("{VISITOR} {DEVELOPER} {UNSAFE} {software}"));
    }
}
