//! Plots side by side in a section of their own.

use maud::{Markup, html};

use super::drift::drift;
use super::roofline::roofline;
use crate::record::Run;

/// What the device of a run could do and how its speed went, each under the run's name.
pub(crate) fn of_device(name: &str, run: &Run) -> [(String, Markup); 2] {
    [("roofline", roofline(run)), ("drift of the device", drift(run))]
        .map(|(what, plot)| (format!("{name}: {what}"), plot))
}

/// A section of the plots that show something, each under its name; nothing where none does.
pub(crate) fn plots(title: &Markup, plots: impl IntoIterator<Item = (String, Markup)>) -> Markup {
    let plots: Vec<(String, Markup)> = plots.into_iter().filter(|(_, plot)| !plot.0.is_empty()).collect();
    html! {
        @if !plots.is_empty() {
            section {
                h2 { (title) }
                div.cards.large { @for (name, plot) in &plots { figure.card { figcaption { (name) } (plot) } } }
            }
        }
    }
}
