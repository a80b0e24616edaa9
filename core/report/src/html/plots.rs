//! Plots side by side in a section.

use maud::{Markup, html};
use parallax_schema::record::Run;

use super::drift::drift;
use super::roofline::roofline;

/// Returns the roofline and the drift of a run's device, each under the run's name.
pub(crate) fn of_device(name: &str, run: &Run) -> [(String, Markup); 2] {
    [("roofline", roofline(run)), ("drift of the device", drift(run))]
        .map(|(what, plot)| (format!("{name}: {what}"), plot))
}

/// Returns a section of the nonempty plots, each under its name; nothing if all are empty.
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
