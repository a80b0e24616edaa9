//! Summaries in Markdown for the page of a CI job.

use parallax_analysis::compare::Comparison;
use parallax_schema::catalog::Catalog;
use parallax_schema::record::NamedRun;

use crate::grid::markdown_text;
use crate::{Table, comparison_brief, device_line, table, tally};

/// Number of rows from which a table is folded.
const FOLDED: usize = 20;
/// Number of differences per direction in the summary of a comparison.
const MOST: usize = 10;

/// Returns the devices, the outcomes and the tables of runs.
pub fn run_summary(catalog: &dyn Catalog, runs: &[NamedRun]) -> String {
    let section = |NamedRun { run, .. }: &NamedRun| {
        let (device, tally, mut table) = (device_line(run), tally(run), table(catalog, run));
        table.heading.retain(|line| *line != device);
        table.notes.retain(|line| *line != tally);
        format!("### {}\n\n{tally}\n\n{}\n", markdown_text(&device), folded(&table))
    };
    runs.iter().map(section).collect()
}

/// Returns the verdicts of a comparison, the lines of its gate and the largest differences.
pub fn comparison_summary(comparison: &Comparison, gate: &[String]) -> String {
    let base = comparison.runs.get(comparison.base).map_or("the base", |run| run.name.as_str());
    let lines: String = gate.iter().map(|line| format!("- {}\n", markdown_text(line))).collect();
    let gap = if lines.is_empty() { "" } else { "\n" };
    format!(
        "### Comparison with {}\n\n{}\n\n{lines}{gap}{}\n",
        markdown_text(base),
        markdown_text(&comparison.tally()),
        folded(&comparison_brief(comparison, MOST))
    )
}

/// Returns a table in Markdown, folded if it is long.
fn folded(table: &Table) -> String {
    match table.rows.len() {
        rows if rows <= FOLDED => table.markdown(),
        rows => format!("<details><summary>{rows} rows</summary>\n\n{}\n</details>\n", table.markdown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_analysis::compare::{Options, compare};
    use parallax_schema::testing::{run, spread};
    use parallax_workloads::Registry;

    fn named(name: &str, count: usize, median: f64) -> NamedRun {
        let cases: Vec<String> = (0..count).map(|i| format!("a/fwd/b{i}/f32/x")).collect();
        let timed: Vec<_> = cases.iter().map(|case| (case.as_str(), spread(median, 0.002, 40))).collect();
        NamedRun::new(name, run("cuda", "X <b>", &timed))
    }

    #[test]
    fn a_run_has_its_device_its_outcomes_and_its_table() {
        let text = run_summary(&Registry, &[named("a", 2, 100.0)]);
        assert!(text.starts_with("### X &lt;b>") && text.contains("\n2 pass\n"), "{text}");
        assert_eq!((text.matches("2 pass").count(), text.matches("X &lt;b>").count()), (1, 1), "{text}");
        assert!(text.contains("| a/fwd/b1/f32 | x | 100 ns |") && !text.contains("<details>"), "{text}");
        let long = run_summary(&Registry, &[named("a", 21, 100.0)]);
        assert!(long.contains("<details><summary>21 rows</summary>\n\n") && long.contains("</details>"), "{long}");
    }

    #[test]
    fn a_comparison_has_its_verdicts_and_its_gate() {
        let comparison = compare(&[named("a", 1, 100.0), named("b", 1, 110.0)], &Options::default()).expect("pairs");
        let text = comparison_summary(&comparison, &["slower by <5>".to_owned()]);
        assert!(text.starts_with("### Comparison with a\n\nof 1 comparison with a: 1 slower"), "{text}");
        assert!(text.contains("\n- slower by &lt;5>\n") && text.contains("1.100×"), "{text}");
    }
}
