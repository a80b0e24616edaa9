//! Collector parts of the front page: it refreshes while results arrive, and invites other devices.

use maud::{Markup, html};

/// Collector: a server that receives results while its site grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collector<'a> {
    /// Address of the page that measures and sends.
    pub address: &'a str,
    /// QR code of the address, row by row, with true for dark; absent if no other device can reach the address.
    pub code: Option<&'a [Vec<bool>]>,
    /// Files of its folder that the site does not show.
    pub hidden: &'a [Hidden],
}

/// File in a collector's folder that its site does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// Name of the file.
    pub file: String,
    /// Reason for hiding it.
    pub why: String,
}

/// Seconds between refreshes of the front page.
pub(super) const REFRESH: u32 = 5;

/// Number of modules that must stay light around a QR code.
const QUIET_ZONE: usize = 4;

/// Returns the invitation for another device.
pub(super) fn invitation(collector: &Collector<'_>) -> Markup {
    html! {
        section.card.join {
            @match collector.code {
                Some(code) => {
                    (picture(code))
                    div {
                        h2 { "Another device" }
                        p { "Open this address on it; its results arrive here:" }
                        p { code { (collector.address) } }
                        p.soft { "Anyone with the address can send results. WebGPU requires https, except on the machine itself." }
                    }
                }
                None => {
                    div {
                        h2 { "Another browser" }
                        p { "Open this address in it; its results arrive here:" }
                        p { code { (collector.address) } }
                        p.soft {
                            "Only this machine can reach it. For others: " code { "parallax serve --host ADDR --tls" } "."
                        }
                    }
                }
            }
        }
    }
}

/// Maximum number of hidden files that the page lists.
const LISTED: usize = 100;

/// Returns the list of hidden files of the folder, each with its reason.
pub(super) fn hidden(files: &[Hidden]) -> Markup {
    let count = match files.len() {
        1 => "1 file of its folder is not shown".to_owned(),
        n => format!("{n} files of its folder are not shown"),
    };
    html! {
        details.hidden {
            summary { (count) }
            ul.soft {
                @for hidden in files.iter().take(LISTED) { li { (hidden.file) ": " (hidden.why) } }
                @if files.len() > LISTED { li { "and " (files.len() - LISTED) " more" } }
            }
        }
    }
}

fn picture(code: &[Vec<bool>]) -> Markup {
    let side = code.len() + 2 * QUIET_ZONE;
    let dark = code.iter().enumerate().flat_map(|(y, row)| {
        row.iter().enumerate().filter(|(_, dark)| **dark).map(move |(x, _)| (x + QUIET_ZONE, y + QUIET_ZONE))
    });
    let path: String = dark.map(|(x, y)| format!("M{x} {y}h1v1h-1z")).collect();
    html! {
        svg.code viewBox=(format!("0 0 {side} {side}")) role="img" aria-label="The address as a QR code" { path d=(path) {} }
    }
}
