//! Recorded sessions in `docs/results`: manifests agree with their run files.
//!
//! The summaries, the list of sessions, the README's table and the notebook's list of pages are generated. They are up to date;
//! `./x bless` writes them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parallax::recorded;
use parallax_report::{RecordedSession, cost_rows, sessions_table};
use parallax_schema::record::NamedRun;

use crate::output::published;

/// Session of the README's table.
const NEWEST: &str = "2026-11-29-h200-tax";
/// Session of the README's table of browsers.
const BROWSERS: &str = "2026-11-29-h200-tax";
/// Text before and after a generated part; the first has the part's name in place of the dash.
const MARKS: [&str; 2] = ["<!-- generated: - -->\n", "<!-- end of generated -->"];

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn sessions() -> Vec<RecordedSession> {
    let entries = std::fs::read_dir(repository("docs/results")).expect("the recorded sessions");
    let folders = entries.map(|entry| entry.expect("readable").path()).filter(|path| path.is_dir());
    let mut sessions: Vec<RecordedSession> =
        folders.map(|folder| recorded::read(&folder).unwrap_or_else(|error| panic!("{error:#}"))).collect();
    sessions.sort_by(|a, b| a.folder.cmp(&b.folder));
    assert!(sessions.len() >= 10, "{} sessions", sessions.len());
    sessions
}

/// The generated part of a file has exactly this text.
fn part_is(path: &str, name: &str, text: &str) {
    let (path, start) = (repository(path), MARKS[0].replace(" - ", &format!(" {name} ")));
    let whole = std::fs::read_to_string(&path).expect("readable");
    let (before, rest) = whole.split_once(&start).unwrap_or_else(|| panic!("{} lacks {start}", path.display()));
    let (_, after) = rest.split_once(MARKS[1]).expect("the end of the part");
    published::assert_is(&path, &format!("{before}{start}{text}{}{after}", MARKS[1]));
}

#[test]
fn manifests_agree_with_their_run_files() {
    for session in sessions() {
        let (name, manifest) = (&session.folder, &session.manifest);
        assert!(name.starts_with(&manifest.date), "{name}: {}", manifest.date);
        let commits: BTreeSet<&str> =
            session.runs.iter().map(|NamedRun { run, .. }| run.suite.commit.as_str()).collect();
        assert_eq!(commits, manifest.commits.iter().map(String::as_str).collect(), "{name}");
        let summary = session.summary();
        for NamedRun { name: file, run } in &session.runs {
            assert!(file.starts_with(&run.target), "{name}/{file}: a file begins with its target");
            let device = run.device();
            let nameless = run.target == "browser" && device.name == "nvidia";
            assert!(nameless || device.name == manifest.device, "{name}/{file}: {}", device.name);
            let driver = device.driver.trim_start_matches("NVIDIA ");
            assert!(driver.is_empty() || Some(driver) == manifest.driver.as_deref(), "{name}/{file}: {driver}");
            let route = run.route();
            let mode = route.reach.map(|mode| mode.name().to_owned()).filter(|mode| mode != "developer");
            let browser = route.browser.map(|browser| browser.to_lowercase());
            let checked = route.checks.map(|_| "checked".to_owned());
            for word in [mode, browser, checked].into_iter().flatten() {
                assert!(file.split('-').any(|part| part == word), "{name}/{file}: it is of {word}");
            }
            assert!(summary.contains(&format!("[{file}.json]")), "{name}/{file}");
        }
        let browsers = session.runs.iter().filter_map(|NamedRun { run, .. }| run.environment.get("user_agent"));
        for agent in browsers {
            let after = |mark: &str| agent.split(mark).nth(1).and_then(|rest| rest.split(' ').next());
            let version = after("Chrome/").or_else(|| after("Firefox/")).expect("Chromium or Firefox");
            let known = manifest.browser.as_deref().expect("a browser");
            // Chromium reports the first part of its version, and Firefox the first with a zero.
            let version = [".0.0.0", ".0"].iter().find_map(|zeros| version.strip_suffix(zeros)).unwrap_or(version);
            assert!(known.contains(version), "{name}: {known} is not {version}");
        }
    }
}

#[test]
fn summaries_are_those_of_their_run_files() {
    for session in sessions() {
        published::assert_is(&repository(&format!("docs/results/{}/summary.md", session.folder)), &session.summary());
    }
}

#[test]
fn tables_of_the_documents_are_those_of_the_run_files() {
    let sessions = sessions();
    part_is("docs/results/README.md", "sessions", &sessions_table(&sessions));
    let newest = sessions.iter().find(|session| session.folder == NEWEST).expect("the session of the README");
    let cost = newest.browser_cost().expect("the browser beside CUDA");
    let [_, waiting, reading] = cost.call().expect("calls").shares.map(|share| (share * 100.0).round());
    let calls = format!(
        "Of the extra time of one call, {waiting:.0} % is waiting for completion and {reading:.0} % is read-back."
    );
    part_is("README.md", "cost of the browser", &format!("{}\n{calls}\n", cost_rows(&cost)));
    let browsers = sessions.iter().find(|session| session.folder == BROWSERS).expect("the session of browsers");
    part_is("README.md", "cost of each browser", &browsers.cost_overview().expect("several targets"));
}

#[test]
fn the_notebook_lists_its_pages() {
    let entries = std::fs::read_dir(repository("docs/notebook")).expect("the notebook");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name != "README.md");
    names.sort_unstable_by(|a, b| b.cmp(a));
    let row = |name: &String| {
        let text = std::fs::read_to_string(repository("docs/notebook").join(name)).expect("readable");
        let question = text.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a title");
        assert!(question.ends_with('?'), "{name}: a page answers one question");
        assert!(text.contains("\n| "), "{name}: a page has a table");
        format!("| {} | [{question}]({name}) |\n", &name[..10])
    };
    let rows: String = names.iter().map(row).collect();
    part_is("docs/notebook/README.md", "pages", &format!("| date | question |\n| --- | --- |\n{rows}"));
}
