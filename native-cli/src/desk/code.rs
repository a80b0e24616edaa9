//! An address as a QR code, for cameras of phones.

use qrcode::render::unicode::Dense1x2;
use qrcode::{Color, EcLevel, QrCode};

/// Screens are clean, so the least correction, which makes the smallest code. None for what is too long.
fn of(address: &str) -> Option<QrCode> {
    QrCode::with_error_correction_level(address, EcLevel::L).ok()
}

/// Row by row, with true for dark.
pub fn rows(address: &str) -> Option<Vec<Vec<bool>>> {
    let code = of(address)?;
    Some(code.to_colors().chunks(code.width()).map(|row| row.iter().map(|c| *c == Color::Dark).collect()).collect())
}

/// For a terminal, most of which are dark: what is light is printed.
pub fn lines(address: &str) -> Option<String> {
    let code = of(address)?;
    Some(code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build())
}
