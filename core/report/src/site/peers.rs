//! Other libraries on the pages of a device: marks beside our fastest kernel, and tables.

use maud::{Markup, html};
use parallax_analysis::Family;
use parallax_analysis::compare::identity::normalised;
use parallax_schema::case::by_case;
use parallax_schema::catalog::Catalog;
use parallax_schema::record::stats::geometric_mean;
use parallax_schema::units::{Nanos, counted};

use super::devices::OnDevice;
use crate::html::{peer_rows, short, table};
use crate::{CardState, Cell, Column, PeerFigure, Peers, Rank, Table, named, target_name};

/// Returns the figures on a device, by problem; those of one family only if it is given.
pub(super) fn on<'p>(device: &OnDevice<'_>, peers: &'p [Peers], family: Option<Family>) -> Vec<&'p PeerFigure> {
    let here = |name: &str| normalised(name) == normalised(&device.name);
    let files = peers.iter().filter(|file| here(&file.device));
    let of_family = |figure: &&PeerFigure| family.is_none_or(|family| Family::of(&figure.problem) == family);
    let mut figures: Vec<&PeerFigure> = files.flat_map(|file| &file.figures).filter(of_family).collect();
    figures.sort_by(|a, b| by_case(&a.problem, &b.problem).then_with(|| a.peer.cmp(&b.peer)));
    figures
}

/// Returns a row of marks per library; nothing without figures.
pub(super) fn marks(figures: &[&PeerFigure]) -> Markup {
    let mut names: Vec<(&str, &str)> =
        figures.iter().map(|figure| (figure.peer.as_str(), figure.target.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    let rows: Vec<(String, String, Vec<&PeerFigure>)> = names
        .into_iter()
        .map(|(peer, target)| {
            let own: Vec<&PeerFigure> = figures
                .iter()
                .copied()
                .filter(|figure| (figure.peer.as_str(), figure.target.as_str()) == (peer, target))
                .collect();
            let mean = geometric_mean(own.iter().map(|figure| figure.ratio()));
            let mean = mean.map_or_else(String::new, |(ratio, problems)| {
                format!("{} ({})", short(ratio), counted(problems, "problem"))
            });
            (format!("{peer}, against ours in {}", target_name(target)), mean, own)
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            section {
                h2 { "Other libraries" }
                figure.card {
                    figcaption {
                        "Time of a library over the time of our fastest kernel. A mark is a problem; both sides were measured in one session \
                         on this kind of card. The figure is the geometric mean."
                    }
                    (peer_rows(&rows))
                }
            }
        }
    }
}

/// Returns every figure as a closed table; nothing without figures.
pub(super) fn figures(catalog: &dyn Catalog, figures: &[&PeerFigure]) -> Markup {
    let sensors = |card: Option<CardState>| card.map_or_else(|| "—".to_owned(), |card| card.words());
    let read = figures.iter().any(|figure| figure.card.or(figure.our_card).is_some());
    let row = |figure: &&PeerFigure| {
        let ratio = Cell::from(short(figure.ratio()));
        let ratio = match figure.interval {
            Some([low, high]) => ratio.with(format!("{} to {}", short(low), short(high))),
            None => ratio,
        };
        let cards = [sensors(figure.card).into(), sensors(figure.our_card).into()];
        let mut cells = vec![
            named(catalog, &figure.problem),
            Cell::from(figure.peer.as_str()).with(target_name(&figure.target)),
            Nanos(figure.nanoseconds).to_string().into(),
            Cell::from(Nanos(figure.ours).to_string()).with(figure.variant.as_str()),
            ratio,
            figure.source.as_str().into(),
        ];
        cells.extend(cards.into_iter().filter(|_| read));
        cells
    };
    let mut columns = vec![
        Column::text("problem"),
        Column::text("library"),
        Column::figure("its time", Rank::Essential),
        Column::figure("ours", Rank::Essential),
        Column::figure("its time over ours", Rank::Essential),
        Column::text("recorded in"),
    ];
    columns.extend(["card during its samples", "card during ours"].map(Column::text).into_iter().filter(|_| read));
    let shown = Table { columns, rows: figures.iter().map(row).collect(), ..Table::default() };
    html! {
        @if !figures.is_empty() {
            section {
                h2 { "Other libraries, problem by problem" }
                details { summary { (counted(figures.len(), "figure")) } (table(&shown)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::tests::{PROBLEM, text};
    use crate::site::{Site, files};
    use parallax_schema::record::NamedRun;
    use parallax_schema::testing::{run, spread};
    use parallax_workloads::Registry;

    #[test]
    fn marks_stand_on_the_page_of_their_device_alone() {
        let peers = [Peers::parse(&text("", "")).expect("sound")];
        let of = |device: &str| {
            NamedRun::new("cuda", run("cuda", device, &[(&*format!("{PROBLEM}/tiled"), spread(100.0, 0.002, 40))]))
        };
        let runs = [of("NVIDIA H200"), of("NVIDIA H100")];
        let files = files(&runs, Site { peers: &peers, ..Site::new(&Registry) });
        for (path, with) in [
            ("device/h200/index.html", true),
            ("device/h200/products/index.html", true),
            ("device/h100/index.html", false),
            ("device/h100/products/index.html", false),
        ] {
            let page = &files.iter().find(|file| file.path == path).expect(path).text;
            assert_eq!(page.contains("PyTorch 2.11 &lt;b&gt;"), with, "{path}");
            assert_eq!(page.contains("0.50×"), with, "{path}");
        }
    }
}
