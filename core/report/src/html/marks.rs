//! Keys of the marks in plots of ratios.

use maud::{Markup, html};

/// Class of a mark in `parts.css`, and its meaning.
pub(super) type Key = (&'static str, &'static str);

pub(super) const SAME: Key = ("same", "the same kernel");
pub(super) const FASTEST: Key = ("best", "the fastest of each");
pub(super) const INTERVAL: Key = ("interval", "95 % interval");
pub(super) const UNDECIDED: Key = ("dotted", "undecided");
pub(super) const BAND: Key = ("zone", "too small to call");

/// Returns the keys in a line.
pub(super) fn legend(keys: &[Key]) -> Markup {
    html! { div.legend { @for (class, meaning) in keys { span.key.(class) { (meaning) } } } }
}
