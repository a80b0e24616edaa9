//! What the front of a desk says besides: results come to it while it is looked at, and other devices can join.

use maud::{Markup, html};

/// A server that results are sent to, and whose site grows meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Desk<'a> {
    /// Address of the page that measures and sends.
    pub address: &'a str,
    /// The address as a QR code, row by row, with true for dark; none where no other device can reach it.
    pub code: Option<&'a [Vec<bool>]>,
    /// Files of its folder that the site does not show.
    pub hidden: &'a [Hidden],
}

/// A file in a desk's folder that its site does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// Its name.
    pub file: String,
    /// The reason.
    pub why: String,
}

/// Seconds after which the front looks for new results.
pub(super) const REFRESH: u32 = 5;

/// Modules that must stay light around a QR code.
const QUIET_ZONE: usize = 4;

/// How another device joins.
pub(super) fn invitation(desk: &Desk<'_>) -> Markup {
    html! {
        section.card.join {
            @match desk.code {
                Some(code) => {
                    (picture(code))
                    div {
                        h2 { "Another device" }
                        p { "Open this address on it; what it measures comes here by itself:" }
                        p { code { (desk.address) } }
                        p.soft { "Whoever has the address can send results. WebGPU wants https, except on the machine itself." }
                    }
                }
                None => {
                    div {
                        h2 { "Another browser" }
                        p { "Open this address in it; what it measures comes here by itself:" }
                        p { code { (desk.address) } }
                        p.soft {
                            "Only this machine can reach it. For others: " code { "parallax serve --host ADDR --tls" } "."
                        }
                    }
                }
            }
        }
    }
}

/// Names of hidden files that the page lists.
const LISTED: usize = 100;

/// Which files of the folder are not shown, each with its reason.
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
