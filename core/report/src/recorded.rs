//! Recorded sessions: a manifest, run files and figures of other libraries, summarised in Markdown.

use parallax_analysis::Family;
use parallax_analysis::compare::{Cost, CostRun, MeanRatio, ProblemCost, cost_on, fastest, one_gpu};
use parallax_schema::case::{by_case, problem_of, variant_of};
use parallax_schema::device::BrowserMode;
use parallax_schema::record::stats::geometric_mean;
use parallax_schema::record::{NamedRun, Outcome, Route, Run};
use parallax_schema::units::{Nanos, counted};
use serde::Deserialize;

use super::html::short;
use super::{Ceiling, Peers, ceilings, cost_answer, cost_overview, markdown, route_name};

/// Facts of a session: those that run files lack, and those that a reader looks for first.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Day of the first run in UTC, as in `2026-11-27`.
    pub date: String,
    /// Name of the GPU or processor.
    pub device: String,
    /// Part of the day, or subject, if the day has several sessions on such a device.
    pub part: Option<String>,
    /// Version of the driver.
    pub driver: Option<String>,
    /// Name and version of the browser.
    pub browser: Option<String>,
    /// Commits of the programs, as the run files have them.
    pub commits: Vec<String>,
    /// Preparation and order of the runs.
    pub how: String,
    /// Restrictions on the use of the figures.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Manifest {
    /// Parses a manifest in TOML.
    ///
    /// # Errors
    /// The parser's error.
    pub fn parse(text: &str) -> Result<Manifest, toml::de::Error> {
        toml::from_str(text)
    }
}

/// Recorded session.
#[derive(Debug, Clone)]
pub struct RecordedSession {
    /// Name of the folder.
    pub folder: String,
    /// The manifest.
    pub manifest: Manifest,
    /// Runs by file name without extension: `TARGET`, `TARGET-MODE`, `TARGET-TOPIC` or `TARGET-MODE-TOPIC`.
    pub runs: Vec<NamedRun>,
    /// Figures of other libraries from the same session.
    pub peers: Option<Peers>,
}

/// Runs of one topic; the topic without a name is the main one.
struct Topic<'s> {
    name: String,
    /// Nearest to the hardware first.
    runs: Vec<&'s NamedRun>,
}

impl RecordedSession {
    /// Returns the session as a page in Markdown.
    pub fn summary(&self) -> String {
        let topics = self.topics();
        let sections =
            [self.head(), costs(&topics), fastest_kernels(&topics), self.libraries(), self.ceilings(), self.files()];
        sections.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// Returns the cost of the browser against the nearest target of the main runs; `None` without both.
    pub fn browser_cost(&self) -> Option<Cost> {
        let topics = self.topics();
        let main = topics.first().filter(|topic| topic.name.is_empty())?;
        main.costs().into_iter().find(|cost| cost.other.route.target == "browser")
    }

    /// Returns the cost of all targets of the main runs by family, in Markdown; `None` for fewer than three targets.
    pub fn cost_overview(&self) -> Option<String> {
        let topics = self.topics();
        let main = topics.first().filter(|topic| topic.name.is_empty())?;
        Some(cost_overview(&main.costs())?.markdown())
    }

    /// Returns the runs by topic, the main topic first.
    fn topics(&self) -> Vec<Topic<'_>> {
        let pairs = self.runs.iter().map(|named| (topic_of(&named.name, &named.run), named));
        let mut topics: Vec<Topic> =
            parallax_schema::grouped(pairs).into_iter().map(|(name, runs)| Topic { name, runs }).collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        topics.iter_mut().for_each(|topic| topic.runs.sort_by_key(|NamedRun { run, .. }| one_gpu::away(run)));
        topics
    }

    fn head(&self) -> Option<String> {
        let Manifest { date, device, part, driver, browser, commits, how, notes } = &self.manifest;
        let fact = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name} {value}"));
        let part = part.as_ref().map(|part| format!(", {part}")).unwrap_or_default();
        let commits = format!("commit {}", commits.join(", "));
        let facts: Vec<String> =
            [fact("Driver", driver), browser.clone(), Some(commits)].into_iter().flatten().collect();
        let notes: String = notes.iter().map(|note| format!("- {}\n", note.trim())).collect();
        let gap = if notes.is_empty() { "" } else { "\n" };
        Some(format!("# {device}, {date}{part}\n\n{}.\n\n{}\n{gap}{notes}", facts.join("; "), how.trim()))
    }

    fn libraries(&self) -> Option<String> {
        let peers = self.peers.as_ref().filter(|peers| !peers.figures.is_empty())?;
        let mut figures: Vec<_> = peers.figures.iter().collect();
        figures.sort_by(|a, b| by_case(&a.problem, &b.problem).then_with(|| a.peer.cmp(&b.peer)));
        let rows = figures.iter().map(|figure| {
            let ours = format!("{} `{}`", Nanos(figure.ours), figure.variant);
            let times = [Nanos(figure.nanoseconds).to_string(), ours, short(figure.ratio())];
            [format!("`{}`", figure.problem), figure.peer.clone(), figure.target.clone()].into_iter().chain(times)
        });
        let table = aligned(
            &["problem", "library", "our target", "library's time:", "our time:", "ratio:"],
            rows.map(Iterator::collect),
        );
        let mut names: Vec<&str> = figures.iter().map(|figure| figure.peer.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let mean = |name: &&str| {
            let own = figures.iter().filter(|figure| figure.peer == *name);
            let (mean, problems) = geometric_mean(own.map(|figure| figure.ratio()))?;
            Some(format!("{name} {} ({})", short(mean), counted(problems, "problem")))
        };
        let means: Vec<String> = names.iter().filter_map(mean).collect();
        let note = "Ratio: the library's time over ours, so above 1 our kernel is faster. Geometric means";
        Some(format!("## Other libraries\n\n{note}: {}.\n\n{table}", means.join(", ")))
    }

    /// Returns the ceilings of the main runs.
    fn ceilings(&self) -> Option<String> {
        const NAMES: [&str; 8] =
            ["memory", "caches", "f32", "f16", "f16 matrix", "bf16 matrix", "dispatch", "download"];
        let found = |NamedRun { name, run }: &NamedRun| {
            let main = topic_of(name, run).is_empty();
            Some((name.clone(), ceilings(&run.baseline.as_ref().filter(|_| main)?.ceilings)))
        };
        let runs: Vec<(String, Vec<Ceiling>)> =
            self.runs.iter().filter_map(found).filter(|(_, found)| !found.is_empty()).collect();
        let value = |found: &[Ceiling], name: &str| {
            found.iter().find(|ceiling| ceiling.name == name).map(|ceiling| ceiling.value.clone())
        };
        let names: Vec<&str> =
            NAMES.into_iter().filter(|name| runs.iter().any(|(_, found)| value(found, name).is_some())).collect();
        let titles: Vec<String> = names.iter().map(|name| format!("{name}:")).collect();
        let columns: Vec<&str> = std::iter::once("run").chain(titles.iter().map(String::as_str)).collect();
        let rows = runs.iter().map(|(name, found)| {
            let cells = names.iter().map(|wanted| value(found, wanted).unwrap_or_default());
            std::iter::once(name.clone()).chain(cells).collect()
        });
        let table = aligned(&columns, rows);
        (!runs.is_empty()).then(|| format!("## Ceilings\n\nBest rates of the probes in each run.\n\n{table}"))
    }

    fn files(&self) -> Option<String> {
        let row = |NamedRun { name, run }: &NamedRun| {
            let count = |wanted: fn(&Outcome) -> bool| run.records.iter().filter(|r| wanted(&r.outcome)).count();
            let timed = run.records.iter().filter(|record| record.timing().is_some()).count();
            let skipped = count(|outcome| matches!(outcome, Outcome::Skipped { .. }));
            let started = super::date::date(run.started).map_or_else(String::new, |date| date[11..16].to_owned());
            let counts = [timed, skipped, run.planned.len() - (timed + skipped).min(run.planned.len())];
            let clock = format!("{}, steps of {}", run.clock.clock.label(), run.clock.step);
            [format!("[{name}.json]({name}.json)"), run.suite.commit.clone(), started, clock]
                .into_iter()
                .chain(counts.map(|count| count.to_string()))
                .collect::<Vec<String>>()
        };
        let columns = ["file", "commit", "began (UTC)", "clock", "timed:", "skipped:", "without a time:"];
        let table = aligned(&columns, self.runs.iter().map(row));
        let made = format!("This page is made by `parallax report --session docs/results/{}`.", self.folder);
        Some(format!("## Files\n\n{table}\n{made}\n"))
    }
}

/// Returns the topic in a file's name: the part after the words of its route, as in `browser-firefox-stock` or `wgpu-checked`.
fn topic_of(name: &str, run: &Run) -> String {
    let own = run.route().browser.map(|browser| browser.to_lowercase());
    let checked = run.checks().map(|_| "checked").or(run.arithmetic());
    let modes = BrowserMode::ALL.map(BrowserMode::name);
    let of_route = |word: &str| modes.contains(&word) || Some(word) == own.as_deref() || Some(word) == checked;
    let rest = name.strip_prefix(&run.target).unwrap_or(name).trim_start_matches('-');
    rest.split('-').skip_while(|word| of_route(word)).collect::<Vec<_>>().join("-")
}

impl Topic<'_> {
    /// Returns the cost of each run against the nearest to the hardware.
    fn costs(&self) -> Vec<Cost> {
        let Some((base, others)) = self.runs.split_first() else { return Vec::new() };
        others.iter().filter_map(|other| cost_on(base, other, true).ok()).collect()
    }
}

/// Returns the costs: the main topic by family, others as sentences.
fn costs(topics: &[Topic]) -> Option<String> {
    let mut parts = Vec::new();
    for topic in topics {
        let costs = topic.costs();
        let overview = cost_overview(&costs).filter(|_| topic.name.is_empty());
        parts.extend(overview.map(|table| table.markdown()));
        for cost in costs {
            match topic.name.as_str() {
                "" => parts.push(format!("### {}\n\n{}\n\n{}", heading(&cost), cost_answer(&cost), cost_rows(&cost))),
                name => parts.push(format!("{name}: {}\n", cost_answer(&cost))),
            }
        }
    }
    let note = "Ratios are times over the base's time, geometric means over problems: below 1 is faster. *Same kernel*: one variant \
                on both sides. *Fastest version*: the best variant of each side. *One call*: from submission to the bytes on the host.";
    (!parts.is_empty()).then(|| format!("## Cost of each target\n\n{note}\n\n{}", parts.join("\n")))
}

/// Returns both targets of a cost.
fn heading(cost: &Cost) -> String {
    let name = |run: &CostRun| title(&run.route);
    format!("{} against {}", name(&cost.other), name(&cost.base))
}

/// Returns the cost of a target as a table in Markdown, one line per family and one for all.
pub fn cost_rows(cost: &Cost) -> String {
    let row = |name: &str, wanted: &dyn Fn(&str) -> bool| {
        let problems: Vec<&ProblemCost> = cost.problems.iter().filter(|problem| wanted(&problem.problem)).collect();
        let mean = |mean: Option<MeanRatio>| mean.map_or_else(|| "–".to_owned(), |mean| short(mean.value));
        let same = MeanRatio::of(problems.iter().filter_map(|problem| Some(&problem.same.as_ref()?.ratio)));
        let best = MeanRatio::of(problems.iter().filter_map(|problem| Some(&problem.best.as_ref()?.ratio)));
        let call = cost.call_of(wanted).map_or_else(|| "–".to_owned(), |call| short(call.ratio));
        (!problems.is_empty()).then(|| vec![name.to_owned(), problems.len().to_string(), mean(same), mean(best), call])
    };
    let families = Family::ALL.into_iter().filter_map(|family| row(family.name(), &|case| Family::of(case) == family));
    let rows = families.chain(row("all", &|_| true));
    aligned(&["family", "problems:", "same kernel:", "fastest version:", "one call:"], rows)
}

/// Returns the fastest kernel of each problem on each target, one table per topic.
fn fastest_kernels(topics: &[Topic]) -> Option<String> {
    let tables: Vec<String> = topics.iter().filter_map(Topic::fastest).collect();
    (!tables.is_empty())
        .then(|| format!("## Fastest kernel of each problem\n\nMedian time and variant.\n\n{}", tables.join("\n")))
}

impl Topic<'_> {
    fn fastest(&self) -> Option<String> {
        let timed = |run: &Run| -> Vec<String> {
            let of_run = run.records.iter().filter(|record| record.timing().is_some());
            of_run.map(|record| problem_of(&record.case).to_owned()).collect()
        };
        let mut problems: Vec<String> = self.runs.iter().flat_map(|NamedRun { run, .. }| timed(run)).collect();
        problems.sort_by(|a, b| by_case(a, b));
        problems.dedup();
        let cell = |run: &Run, problem: &str| {
            let found = fastest(run, problem, |_| true).and_then(|record| Some((record, record.timing()?)));
            found.map_or_else(String::new, |(record, timing)| {
                format!("{} `{}`", timing.summary.median, variant_of(&record.case))
            })
        };
        let rows = problems.iter().map(|problem| {
            let cells = self.runs.iter().map(|NamedRun { run, .. }| cell(run, problem));
            std::iter::once(format!("`{problem}`")).chain(cells).collect()
        });
        let titles: Vec<String> =
            self.runs.iter().map(|NamedRun { run, .. }| format!("{}:", title(&run.route()))).collect();
        let columns: Vec<&str> = std::iter::once("problem").chain(titles.iter().map(String::as_str)).collect();
        let heading = if self.name.is_empty() { String::new() } else { format!("### {}\n\n", self.name) };
        (!problems.is_empty()).then(|| format!("{heading}{}", aligned(&columns, rows)))
    }
}

/// Returns the name of a route without an article.
fn title(route: &Route) -> String {
    route_name(route).trim_start_matches("the ").to_owned()
}

/// Returns a line per session in Markdown, the newest first. Links lead to the summaries.
pub fn sessions_table(sessions: &[RecordedSession]) -> String {
    let mut sessions: Vec<&RecordedSession> = sessions.iter().collect();
    sessions.sort_by(|a, b| b.folder.cmp(&a.folder));
    let row = |session: &&RecordedSession| {
        let Manifest { device, driver, browser, commits, .. } = &session.manifest;
        let files: Vec<&str> = session.runs.iter().map(|NamedRun { name, .. }| name.as_str()).collect();
        let records = session.runs.iter().flat_map(|NamedRun { run, .. }| &run.records);
        let timed = records.filter(|record| record.timing().is_some()).count();
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
        vec![
            format!("[{0}]({0}/summary.md)", session.folder),
            device.clone(),
            or_none(driver),
            or_none(browser),
            commits.join(", "),
            files.join(", "),
            timed.to_string(),
        ]
    };
    let columns = ["session", "device", "driver", "browser", "commit", "run files", "timed cases:"];
    aligned(&columns, sessions.iter().map(row))
}

/// Returns a table in Markdown; columns whose title ends with a colon are aligned to the right.
fn aligned(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let titles: Vec<&str> = columns.iter().map(|title| title.trim_end_matches(':')).collect();
    let plain = markdown(&titles, rows);
    let rules: Vec<&str> = columns.iter().map(|title| if title.ends_with(':') { "--:" } else { "---" }).collect();
    let mut lines: Vec<&str> = plain.lines().collect();
    let rule = format!("| {} |", rules.join(" | "));
    lines[1] = &rule;
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::WGSL_CHECKS;
    use parallax_schema::testing::{run, spread};

    const MANIFEST: &str = r#"
        date = "2026-11-27"
        device = "NVIDIA H200"
        driver = "580"
        commits = ["0123abc"]
        how = "In turn."
        notes = ["One | remark."]
    "#;

    fn named(name: &str, target: &str, cases: &[(&str, f64)]) -> NamedRun {
        let cases: Vec<_> = cases.iter().map(|(case, median)| (*case, spread(*median, 0.002, 40))).collect();
        NamedRun::new(name, run(target, "NVIDIA H200", &cases))
    }

    fn session() -> RecordedSession {
        let (tiled, vendor) = ("matmul/fwd/m8,n8,k8/f32/tiled", "matmul/fwd/m8,n8,k8/f32/vendor");
        let runs = vec![
            named("browser-stock", "browser", &[(tiled, 150.0)]),
            named("cuda", "cuda", &[(tiled, 100.0), (vendor, 50.0)]),
            named("cuda-block", "cuda", &[("copy/fwd/n64/f32/vec4", 10.0)]),
        ];
        let manifest = Manifest::parse(MANIFEST).expect("a manifest");
        RecordedSession { folder: "2026-11-27-h200".to_owned(), manifest, runs, peers: None }
    }

    #[test]
    fn a_topic_follows_the_words_of_the_route() {
        let firefox = ("user_agent", "Gecko/20100101 Firefox/153.0");
        for (target, fact, name, want) in [
            ("browser", None, "browser-unsafe-block", "block"),
            ("browser", None, "browser-firefox", "firefox"),
            ("browser", Some(firefox), "browser-firefox-stock", ""),
            ("browser", Some(firefox), "browser-firefox-encoder-layer", "encoder-layer"),
            ("wgpu", Some((WGSL_CHECKS, "all")), "wgpu-checked", ""),
            ("wgpu", None, "wgpu-checked", "checked"),
            ("cuda", None, "quick", "quick"),
        ] {
            let mut run = run(target, "X", &[]);
            run.environment.extend(fact.map(|(key, value)| (key.to_owned(), value.to_owned())));
            assert_eq!(topic_of(name, &run), want, "{name}");
        }
    }

    #[test]
    fn a_summary_has_the_cost_and_the_fastest_kernels() {
        let page = session().summary();
        for part in [
            "# NVIDIA H200, 2026-11-27\n\nDriver 580; commit 0123abc.\n\nIn turn.\n\n- One | remark.\n",
            "| matrix products | 1 | 1.50× | 3.00× | – |\n| all | 1 | 1.50× | 3.00× | – |\n",
            "| `matmul/fwd/m8,n8,k8/f32` | 50.0 ns `vendor` | 150 ns `tiled` |\n",
            "### block\n\n| problem | CUDA |\n| --- | --: |\n| `copy/fwd/n64/f32` | 10.0 ns `vec4` |\n",
            "[browser-stock.json](browser-stock.json)",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("Other libraries"), "{page}");
    }

    #[test]
    fn sessions_are_listed_with_the_newest_first() {
        let older = RecordedSession { folder: "2026-11-21-h200".to_owned(), ..session() };
        let table = sessions_table(&[older, session()]);
        let at = |folder: &str| table.find(&format!("[{folder}]({folder}/summary.md)")).expect("listed");
        assert!(at("2026-11-27-h200") < at("2026-11-21-h200"), "{table}");
    }

    #[test]
    fn unknown_keys_of_a_manifest_are_refused() {
        assert!(Manifest::parse(&MANIFEST.replace("how", "why")).is_err());
    }
}
