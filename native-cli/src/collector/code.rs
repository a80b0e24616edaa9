//! URL as a QR code, for cameras of phones.

use qrcode::render::unicode::Dense1x2;
use qrcode::{Color, EcLevel, QrCode};

/// Returns the code; `None` if the URL is too long. Screens are clean, so the lowest error correction suffices, which
/// makes the smallest code.
fn of(address: &str) -> Option<QrCode> {
    QrCode::with_error_correction_level(address, EcLevel::L).ok()
}

/// Returns the code by rows; true is dark.
pub fn rows(address: &str) -> Option<Vec<Vec<bool>>> {
    let code = of(address)?;
    Some(code.to_colors().chunks(code.width()).map(|row| row.iter().map(|c| *c == Color::Dark).collect()).collect())
}

/// Returns the code for a terminal. Most terminals are dark, so the light modules are printed.
pub fn lines(address: &str) -> Option<String> {
    let code = of(address)?;
    Some(code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build())
}
