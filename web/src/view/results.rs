//! The table of results: a row per case, which stays in place from its preparation to its verdict.

use parallax_core::record::Record;
use parallax_core::report::Row;
use parallax_core::units::{Nanos, percent};
use web_sys::Element;

use super::View;
use super::dom::{attribute, empty, fill, id, make, property, prose};
use crate::activity::Stage;
use crate::remarks::Remarks;

/// Columns of the table in index.html.
const COLUMNS: &str = "8";

/// Everything in the table.
#[derive(Default)]
pub struct Table {
    groups: Vec<Group>,
}

/// The rows of one problem.
struct Group {
    problem: String,
    body: Element,
    lines: Vec<Line>,
}

/// One case.
struct Line {
    /// The variant that was asked for.
    variant: String,
    row: Element,
    remarks: Option<Element>,
    state: State,
}

enum State {
    /// On its way; the cell says where.
    Busy(Element),
    /// Ended, with a time and the cell that compares it if there is one.
    Ended(Option<(Nanos, Element)>),
}

/// Problem and variant of a canonical case string.
fn split(case: &str) -> (&str, &str) {
    case.rsplit_once('/').unwrap_or((case, ""))
}

impl Table {
    fn group(&mut self, problem: &str) -> &mut Group {
        let at = self.groups.iter().position(|g| g.problem == problem).unwrap_or_else(|| {
            self.groups.push(Group::new(problem));
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }

    fn busy(&self) -> impl Iterator<Item = &Element> {
        self.groups.iter().flat_map(|g| &g.lines).filter_map(|line| match &line.state {
            State::Busy(cell) => Some(cell),
            State::Ended(_) => None,
        })
    }
}

impl Group {
    fn new(problem: &str) -> Group {
        let body = make("tbody", "", "");
        let head = make("tr", "", "");
        let cell = make("th", "", "");
        attribute(&cell, "colspan", COLUMNS);
        attribute(&cell, "scope", "rowgroup");
        let (workload, rest) = problem.split_once('/').unwrap_or((problem, ""));
        fill(&cell, [&make("b", "", workload), &make("span", "case quiet", rest)]);
        fill(&head, [&cell]);
        fill(&body, [&head]);
        fill(&id("results"), [&body]);
        id("results-section").set_hidden(false);
        Group { problem: problem.to_owned(), body, lines: Vec::new() }
    }

    fn line(&mut self, variant: &str) -> &mut Line {
        let at = self.lines.iter().position(|l| l.variant == variant).unwrap_or_else(|| {
            let row = make("tr", "busy", "");
            let state = make("td", "state", "");
            attribute(&state, "colspan", "6");
            fill(&row, [&make("td", "variant", variant), &make("td", "num median", "…"), &state]);
            fill(&self.body, [&row]);
            let state = State::Busy(state);
            self.lines.push(Line { variant: variant.to_owned(), row, remarks: None, state });
            self.lines.len() - 1
        });
        &mut self.lines[at]
    }

    /// Draw every time against the fastest one, once there are two.
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
            // The style sheet scales the bar to what the label beside it leaves, so that lengths stay in proportion.
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
        let cells = [
            make("td", "variant", &row.variant),
            make("td", "num median", &row.median),
            make("td", "num interval", &row.interval),
            make("td", "num rate", &row.rate),
            make("td", "num ceiling", &row.ceiling),
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
    /// Take every row away.
    pub(super) fn clear_results(&self) {
        for group in self.table.borrow_mut().groups.drain(..) {
            group.body.remove();
        }
    }

    /// A case is worked on.
    pub fn case_started(&self, case: &str, stage: Stage) {
        let (problem, variant) = split(case);
        if let State::Busy(cell) = &self.table.borrow_mut().group(problem).line(variant).state {
            cell.set_text_content(Some(stage.word()));
        }
    }

    /// Every case that is on its way is at this stage.
    pub fn cases_at(&self, stage: Stage) {
        for cell in self.table.borrow().busy() {
            cell.set_text_content(Some(stage.word()));
        }
    }

    /// The cases on their way have to begin again.
    pub fn cases_wait(&self) {
        for cell in self.table.borrow().busy() {
            cell.set_text_content(Some("waiting"));
        }
    }

    /// A case ended.
    pub fn case_finished(&self, record: &Record, row: &Row) {
        let mut table = self.table.borrow_mut();
        let group = table.group(&row.problem);
        group.line(&record.parts.variant).end(record, row);
        group.compare();
    }

    /// What is to be said about a case that ended, in place of what was said before.
    pub fn remarks(&self, case: &str, remarks: &Remarks) {
        let (problem, variant) = split(case);
        let mut table = self.table.borrow_mut();
        let group = table.groups.iter_mut().find(|g| g.problem == problem);
        if let Some(line) = group.and_then(|g| g.lines.iter_mut().find(|l| l.variant == variant)) {
            line.remark(remarks);
        }
    }

    /// The run is over: rows of cases that were not completed go, and headings without rows with them.
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
