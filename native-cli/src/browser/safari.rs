//! Safari, through `safaridriver` on macOS. This path is tested against a substitute of the driver alone.

/// Flags of the driver: a fixed port, because it prints none.
pub const FLAGS: [&str; 2] = ["--port", "4455"];

/// Address of the driver.
pub const ADDRESS: &str = "127.0.0.1:4455";
