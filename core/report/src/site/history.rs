//! Page of the changes over time: series of the site's runs and of earlier ones.

use maud::html;
use parallax_analysis::history::{History, HistoryBuilder};
use parallax_schema::record::NamedRun;

use super::Site;
use super::frame::{Head, page as whole};
use crate::html::{history_series, history_totals};

/// Folder of the page in the site.
pub(super) const PATH: &str = "history";

/// Largest number of series in a section, for the size of the page.
const MOST: usize = 24;

/// `/history/`.
pub(super) fn page<'r>(runs: impl IntoIterator<Item = &'r NamedRun>, site: Site) -> String {
    let history = found(runs, site.earlier);
    let head = &Head {
        depth: 1,
        title: "Changes over time",
        about: "Times of each case over many runs: changes with intervals, and their causes.",
    };
    let main = html! {
        h1 { (head.title) }
        p.lead { (history_totals(&history)) }
        (history_series(&history, MOST))
        section {
            h2 { "Your own runs" }
            p { "All run files of a folder:" }
            p { code { "parallax history results --format html --output history.html" } }
        }
    };
    whole(head, site, &main)
}

/// Returns the history of runs and of earlier ones.
fn found<'r>(runs: impl IntoIterator<Item = &'r NamedRun>, earlier: Option<&HistoryBuilder>) -> History {
    let mut builder = earlier.cloned().unwrap_or_default();
    for NamedRun { name, run } in runs {
        builder.add(name, run, |_| true);
    }
    builder.finish(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Pages;
    use parallax_schema::testing::{run, spread};
    use parallax_workloads::Registry;

    const COPY: &str = "copy/fwd/n64/f32/vec4";

    /// Returns the run of a night, 10 % slower from night 12 on.
    fn night(night: u64) -> NamedRun {
        let step = if night >= 12 { 1.1 } else { 1.0 };
        let mut of = run("cuda", "NVIDIA H200", &[(COPY, spread(1000.0 * step, 0.002, 9))]);
        of.started = 1_700_000_000 + 86_400 * night;
        NamedRun::new(format!("{night}.json"), of)
    }

    fn page_of(runs: &[NamedRun], earlier: Option<&HistoryBuilder>) -> Option<String> {
        Pages::new(runs, Site { earlier, ..Site::new(&Registry) }).text("history/index.html")
    }

    #[test]
    fn the_page_has_the_changes_of_shown_and_earlier_runs() {
        let all: Vec<NamedRun> = (0..24).map(night).collect();
        let page = page_of(&all, None).expect("a page");
        assert!(page.contains("1 changed, 0 stable") && page.contains("1.100× [1.099, 1.101] slower"), "{page}");
        let mut earlier = HistoryBuilder::default();
        all[..23].iter().for_each(|named| earlier.add(&named.name, &named.run, |_| true));
        assert_eq!(page_of(&all[23..], Some(&earlier)), Some(page));
        assert_eq!(page_of(&[], None), None, "no runs, no page");
        let compare = Pages::new(&all, Site::new(&Registry)).text("compare/index.html").expect("a page");
        assert!(compare.contains("href=\"../history/\""), "{compare}");
    }

    #[test]
    fn a_section_has_a_limit_and_names_the_rest() {
        let cases: Vec<String> = (0..MOST + 3).map(|n| format!("copy/fwd/n{n}/f32/vec4")).collect();
        let timed: Vec<_> = cases.iter().map(|case| (case.as_str(), spread(100.0, 0.002, 9))).collect();
        let page = page_of(&[NamedRun::new("a", run("cuda", "X", &timed))], None).expect("a page");
        assert_eq!(page.matches("<svg class=\"plot").count(), MOST, "{page}");
        assert!(page.contains("3 more; "), "{page}");
    }
}
