//! Table of results: one row per case, which stays in place from its preparation to its verdict.

use std::collections::BTreeMap;

use parallax_report::Row;
use parallax_schema::case::{problem_of, variant_of, workload_of};
use parallax_schema::record::Record;
use parallax_schema::session::Outline;
use parallax_schema::units::{Nanos, percent};
use web_sys::Element;

use super::View;
use super::dom::{attribute, empty, fill, id, make, property, prose, say};
use crate::activity::Stage;
use crate::live::PartialResult;
use crate::remarks::Remarks;

/// Number of columns of the table in index.html.
const COLUMNS: &str = "9";

/// Contents of the table.
#[derive(Default)]
pub struct Table {
    groups: Vec<Group>,
    /// Labels of the plan's problems, by their strings.
    labels: BTreeMap<String, String>,
}

/// Rows of one problem.
struct Group {
    problem: String,
    body: Element,
    lines: Vec<Line>,
}

/// Row of one case.
struct Line {
    /// The requested variant.
    variant: String,
    row: Element,
    remarks: Option<Element>,
    state: State,
}

enum State {
    /// In progress; its cells show the stage.
    Busy(Busy),
    /// Ended, with the time and the comparison cell if there is a time.
    Ended(Option<(Nanos, Element)>),
}

/// Cells of a case in progress. They have their final size from the beginning, so that nothing moves when they fill.
struct Busy {
    median: Element,
    stage: Element,
    strip: Element,
    tally: Element,
}

impl Busy {
    fn new(row: &Element, variant: &str) -> Busy {
        let (median, state) = (make("td", "num median", "…"), make("td", "state", ""));
        attribute(&state, "colspan", "7");
        let [stage, strip, tally] = ["stage", "strip", "tally"].map(|class| make("span", class, ""));
        fill(&state, [&stage, &strip, &tally]);
        fill(row, [&make("td", "variant", variant), &median, &state]);
        Busy { median, stage, strip, tally }
    }

    /// Shows a partial result, marked as preliminary.
    fn show(&self, glimpse: &PartialResult) {
        self.median.set_class_name("num median preliminary");
        say(&self.median, &format!("≈ {}", glimpse.median));
        // Markup of the core's report, which has no text in it.
        self.strip.set_inner_html(&glimpse.strip);
        say(&self.tally, &glimpse.tally);
    }

    /// Resets the cells for a case that begins again.
    fn wait(&self) {
        say(&self.median, "…");
        say(&self.stage, "waiting");
        empty(&self.strip);
        empty(&self.tally);
    }
}

impl Table {
    fn group(&mut self, problem: &str) -> &mut Group {
        let known = self.groups.iter().position(|g| g.problem == problem);
        let at = known.unwrap_or_else(|| {
            // Problems come in a random order. The table groups those of a workload.
            let kin = self.groups.iter().rposition(|g| workload_of(&g.problem) == workload_of(problem));
            let group = Group::new(problem, self.labels.get(problem).map(String::as_str));
            let at = kin.map_or(self.groups.len(), |kin| kin + 1);
            match kin {
                Some(kin) => drop(self.groups[kin].body.after_with_node_1(&group.body)),
                None => fill(&id("results"), [&group.body]),
            }
            self.groups.insert(at, group);
            at
        });
        &mut self.groups[at]
    }

    /// Rows in progress, with their problems.
    fn busy(&self) -> impl Iterator<Item = (&str, &Line, &Busy)> {
        let lines = self.groups.iter().flat_map(|group| group.lines.iter().map(|line| (group.problem.as_str(), line)));
        lines.filter_map(|(problem, line)| match &line.state {
            State::Busy(cells) => Some((problem, line, cells)),
            State::Ended(_) => None,
        })
    }
}

impl Group {
    /// Returns the group of a problem, with the plan's label if there is one.
    fn new(problem: &str, label: Option<&str>) -> Group {
        let body = make("tbody", "", "");
        let head = make("tr", "", "");
        let cell = make("th", "", "");
        attribute(&cell, "colspan", COLUMNS);
        attribute(&cell, "scope", "rowgroup");
        match label {
            Some(label) => fill(&cell, [&make("b", "", label), &make("span", "case quiet", problem)]),
            None => fill(&cell, [&make("b", "", problem)]),
        }
        fill(&head, [&cell]);
        fill(&body, [&head]);
        id("results-section").set_hidden(false);
        Group { problem: problem.to_owned(), body, lines: Vec::new() }
    }

    fn line(&mut self, variant: &str) -> &mut Line {
        let at = self.lines.iter().position(|l| l.variant == variant).unwrap_or_else(|| {
            let row = make("tr", "busy", "");
            let state = State::Busy(Busy::new(&row, variant));
            fill(&self.body, [&row]);
            self.lines.push(Line { variant: variant.to_owned(), row, remarks: None, state });
            self.lines.len() - 1
        });
        &mut self.lines[at]
    }

    /// Draws every time relative to the fastest, if there are at least two.
    fn compare(&self) {
        let ended = self.lines.iter().filter_map(|line| match &line.state {
            State::Ended(timed) => timed.as_ref(),
            State::Busy(_) => None,
        });
        let timed: Vec<&(Nanos, Element)> = ended.collect();
        if timed.len() < 2 {
            return;
        }
        let fastest = timed.iter().map(|(median, _)| median.0).fold(f64::INFINITY, f64::min);
        for (median, cell) in timed {
            let speed = fastest / median.0;
            let meter = make("div", if speed >= 1.0 { "meter best" } else { "meter" }, "");
            let bar = make("i", "", "");
            // The style sheet scales the bar to the width that the label leaves, so that lengths stay in proportion.
            property(&bar, "--speed", &format!("{speed:.3}"));
            fill(&meter, [&bar, &make("span", "", &percent(speed))]);
            empty(cell);
            fill(cell, [&meter]);
        }
    }
}

impl Line {
    fn end(&mut self, record: &Record, row: &Row) {
        empty(&self.row);
        self.row.set_class_name("");
        attribute(&self.row, "data-case", &record.case);
        let verdict = format!("verdict {}", record.verdict().to_lowercase());
        let speed = make("td", "speed", "");
        let error = make("td", "num error", &row.error);
        attribute(&error, "title", &row.worst);
        let cells = [
            make("td", "variant", &row.variant),
            make("td", "num median", &row.median),
            make("td", "num interval", &row.interval),
            make("td", "num rate", &row.rate),
            make("td", "num ceiling", &row.ceiling),
            error,
            speed.clone(),
            make("td", &verdict, &row.verdict),
            make("td", "clock", &row.clock),
        ];
        fill(&self.row, &cells);
        self.state = State::Ended(record.timing().map(|t| (t.summary.median, speed)));
    }

    fn remark(&mut self, remarks: &Remarks) {
        if let Some(old) = self.remarks.take() {
            old.remove();
        }
        if remarks.is_empty() {
            return;
        }
        let note = make("tr", "note", "");
        let cell = make("td", "", "");
        attribute(&cell, "colspan", COLUMNS);
        fill(&cell, &remarks.notes.iter().map(|line| make("p", "", line)).collect::<Vec<_>>());
        fill(&cell, remarks.advice.iter().map(|line| prose("p", "advice", line)).collect::<Vec<_>>().iter());
        fill(&note, [&cell]);
        let _ = self.row.after_with_node_1(&note);
        self.remarks = Some(note);
    }
}

impl View {
    /// Sets the labels of a plan's problems.
    pub(super) fn label_results(&self, plan: &Outline) {
        let problems = plan.workloads.iter().flat_map(|of| of.problems.iter().map(move |problem| (&of.name, problem)));
        let labels =
            problems.map(|(workload, problem)| (format!("{workload}/{}", problem.name), problem.label.clone()));
        self.table.borrow_mut().labels = labels.collect();
    }

    /// Removes every row.
    pub(super) fn clear_results(&self) {
        for group in self.table.borrow_mut().groups.drain(..) {
            group.body.remove();
        }
    }

    /// Shows the stage of a case.
    pub fn case_started(&self, case: &str, stage: Stage) {
        let (problem, variant) = (problem_of(case), variant_of(case));
        if let State::Busy(cells) = &self.table.borrow_mut().group(problem).line(variant).state {
            say(&cells.stage, stage.word());
        }
    }

    /// Shows this stage in every row in progress.
    pub fn cases_at(&self, stage: Stage) {
        for (.., cells) in self.table.borrow().busy() {
            say(&cells.stage, stage.word());
        }
    }

    /// Resets every row in progress.
    pub fn cases_wait(&self) {
        self.table.borrow().busy().for_each(|(.., cells)| cells.wait());
    }

    /// Shows the partial result of a case in progress.
    pub fn case_so_far(&self, glimpse: &PartialResult) {
        let (problem, variant) = (problem_of(&glimpse.case), variant_of(&glimpse.case));
        let table = self.table.borrow();
        let mut busy = table.busy();
        if let Some((.., cells)) = busy.find(|(of, line, _)| *of == problem && line.variant == variant) {
            cells.show(glimpse);
        }
    }

    /// Shows the record of an ended case.
    pub fn case_finished(&self, record: &Record, row: &Row) {
        let mut table = self.table.borrow_mut();
        let group = table.group(&row.problem);
        group.line(&record.parts.variant).end(record, row);
        group.compare();
    }

    /// Replaces the remarks on an ended case.
    pub fn remarks(&self, case: &str, remarks: &Remarks) {
        let (problem, variant) = (problem_of(case), variant_of(case));
        let mut table = self.table.borrow_mut();
        let group = table.groups.iter_mut().find(|g| g.problem == problem);
        if let Some(line) = group.and_then(|g| g.lines.iter_mut().find(|l| l.variant == variant)) {
            line.remark(remarks);
        }
    }

    /// Removes the rows of incomplete cases after the run, and headings without rows.
    pub(super) fn clear_unfinished(&self) {
        self.table.borrow_mut().groups.retain_mut(|group| {
            group.lines.retain(|line| {
                let ended = matches!(line.state, State::Ended(_));
                if !ended {
                    line.row.remove();
                }
                ended
            });
            if group.lines.is_empty() {
                group.body.remove();
            }
            !group.lines.is_empty()
        });
    }
}
