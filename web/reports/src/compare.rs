//! Control flow of the comparison view: it reads run files and links, and shows the comparison of core. It measures nothing, and
//! nothing leaves the browser.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use parallax_analysis::compare::{Comparison, Cost, Options, compare, costs};
use parallax_report::{FROM_A_LINK, compared_scores, comparison_table, heads, html, sheet, tables_of_models};
use parallax_schema::record::{NamedRun, Run, RunSummary};
use parallax_schema::spec::filter::any_keeps;
use parallax_schema::spec::query;
use parallax_workloads::Registry;
use wasm_bindgen_futures::spawn_local;
use web_sys::File;

use parallax_web::environment::{sleep, turn};
use parallax_web::shelf::RunStore;
use parallax_web::view::{Chip, ChipWish, Export, View};
use parallax_web::words::moment;
use parallax_web::{link, reading, reports, share};

/// Origin of an input.
enum Source {
    /// A file of the user's machine.
    File(File),
    /// A path of this page's own site.
    Address(String),
    /// A kept run of this browser.
    Kept(f64),
    /// The text of a link.
    Link(String),
}

/// Contents of an input.
#[derive(Clone)]
enum What {
    Run(Rc<Run>),
    Link(Rc<RunSummary>),
}

/// Slot of an input, in the order of arrival; empty while it is read.
struct Slot {
    id: u32,
    name: String,
    what: Option<What>,
}

/// The latest comparison.
struct Held {
    runs: Vec<NamedRun>,
    comparison: Comparison,
    costs: Vec<Cost>,
}

/// State that outlives one event of this view.
struct Comparing {
    view: View,
    slots: RefCell<Vec<Slot>>,
    base: Cell<Option<u32>>,
    /// Number of slots ever created.
    count: Cell<u32>,
    /// Number of changes so far. The page does not draw a superseded one.
    changes: Cell<u32>,
    /// Number of changes of filter and order so far.
    looks: Cell<u32>,
    /// Query of the page's address without filter and order.
    asked: Vec<(String, String)>,
    held: RefCell<Option<Rc<Held>>>,
    shelf: RefCell<Option<Rc<RunStore>>>,
}

/// Names of filter and order in the page's address.
const FILTER: &str = "filter";
const SORT: &str = "sort";
/// Value of the order by largest ratio, in the page's address.
const BY_RATIO: &str = "ratio";
/// Milliseconds without further input before a filter is applied.
const PAUSE: i32 = 150;

/// Starts this view, which is already visible.
pub async fn start(search: String) {
    let view = View::new();
    let (looks, asked): (Vec<_>, Vec<_>) =
        query::read(&search).into_iter().partition(|(key, _)| key == FILTER || key == SORT);
    let said = |key: &str| looks.iter().find(|(known, _)| known == key).map_or("", |(_, value)| value.as_str());
    view.set_look(said(FILTER), said(SORT) == BY_RATIO);
    let comparing = Rc::new(Comparing {
        view,
        slots: RefCell::default(),
        base: Cell::default(),
        count: Cell::default(),
        changes: Cell::default(),
        looks: Cell::default(),
        asked,
        held: RefCell::default(),
        shelf: RefCell::default(),
    });
    comparing.listen();
    comparing.view.comparable();
    for (_, address) in query::read(&search).into_iter().filter(|(key, _)| key == "a" || key == "b") {
        comparing.take(Source::Address(address));
    }
    let fragment = comparing.view.fragment();
    if link::payload(&fragment).is_some() {
        comparing.take(Source::Link(fragment));
    }
    comparing.draw();
    if let Some(shelf) = RunStore::open(|| ()).await {
        let spines = shelf.spines().await.unwrap_or_default();
        *comparing.shelf.borrow_mut() = Some(Rc::new(shelf));
        let asked = query::read(&search).into_iter().filter(|(key, _)| key == "kept");
        for id in asked.filter_map(|(_, id)| id.parse::<f64>().ok()) {
            if spines.iter().any(|spine| spine.id == id) {
                comparing.take(Source::Kept(id));
            }
        }
        comparing.view.kept(&spines);
    }
}

impl Comparing {
    fn listen(self: &Rc<Self>) {
        let this = self.clone();
        self.view.on_files("compare-files", move |files| {
            this.view.clear_refused();
            files.into_iter().for_each(|file| this.take(Source::File(file)));
        });
        let this = self.clone();
        self.view.on_pasted(move |text| {
            this.view.clear_refused();
            this.take(Source::Link(text));
        });
        let this = self.clone();
        self.view.on_kept(move |id| this.take(Source::Kept(id)));
        let this = self.clone();
        self.view.on_chip(move |wish, id| {
            match wish {
                ChipWish::Base => this.base.set(Some(id)),
                ChipWish::Remove => this.slots.borrow_mut().retain(|slot| slot.id != id),
            }
            this.change();
        });
        let this = self.clone();
        self.view.on_look(move || this.look());
        let this = self.clone();
        self.view.on_export(move |export| this.export(export));
    }

    /// Reads an input in a task of its own, so that a failure does not affect the others.
    fn take(self: &Rc<Self>, source: Source) {
        let id = self.count.get();
        self.count.set(id + 1);
        let name = source.name();
        self.slots.borrow_mut().push(Slot { id, name: name.clone(), what: None });
        self.view.compare_line(&format!("Reading {name} …"));
        let this = self.clone();
        spawn_local(async move {
            let read = this.read(&source, &name).await;
            match read {
                Ok(what) => this.fill(id, what),
                Err(why) => {
                    this.slots.borrow_mut().retain(|slot| slot.id != id);
                    this.view.refused(&name, why.trim_end_matches('.'));
                }
            }
            this.change();
        });
    }

    async fn read(&self, source: &Source, name: &str) -> Result<What, String> {
        let text = match source {
            Source::Link(text) => {
                let payload = link::payload(text).ok_or("it is not a link with results: such a link contains #r=")?;
                let summary =
                    reading::guarded(name, || RunSummary::from_link(payload)).map_err(|why| why.to_string())?;
                return Ok(What::Link(Rc::new(summary)));
            }
            Source::Kept(id) => {
                let shelf = self.shelf.borrow().clone().ok_or("this browser keeps no runs")?;
                return Ok(What::Run(Rc::new(shelf.read(*id).await?)));
            }
            Source::File(file) => reading::text_of(file).await?,
            Source::Address(address) => reading::text_at(address).await?,
        };
        Ok(What::Run(Rc::new(reports::read(&text).await?)))
    }

    /// Puts a read input into its slot, under a unique name.
    fn fill(&self, id: u32, what: What) {
        let mut slots = self.slots.borrow_mut();
        let Some(at) = slots.iter().position(|slot| slot.id == id) else { return };
        let stem = match &what {
            What::Link(summary) => format!("{}, by link", summary.called()),
            What::Run(_) => slots[at].name.clone(),
        };
        let numbered = |n: u32| if n == 1 { stem.clone() } else { format!("{stem} ({n})") };
        let free = |name: &String| slots.iter().all(|slot| slot.id == id || slot.name != *name);
        let name = (1..).map(numbered).find(free).expect("there are more numbers than slots");
        slots[at].name = name;
        slots[at].what = Some(what);
    }

    /// Compares again after a change of the inputs, once the browser has shown the change.
    fn change(self: &Rc<Self>) {
        let change = self.changes.get() + 1;
        self.changes.set(change);
        *self.held.borrow_mut() = None;
        self.view.chips(&self.all_chips());
        self.view.compare_line("Comparing …");
        let this = self.clone();
        spawn_local(async move {
            turn().await;
            if this.changes.get() == change {
                this.hold();
            }
        });
    }

    fn all_chips(&self) -> Vec<Chip> {
        let base = self.base_id();
        let chip = |slot: &Slot| {
            let (device, way, started) = match slot.what.as_ref()? {
                What::Run(run) => (run.called_in_full(), run.way(), run.started),
                What::Link(summary) => (summary.called().to_owned(), summary.way(), summary.started),
            };
            let about = format!("{device} · {way} · {}", moment(started as f64 * 1e3));
            let can_be_base = matches!(slot.what, Some(What::Run(_)));
            Some(Chip {
                id: slot.id,
                name: slot.name.clone(),
                about,
                base: can_be_base.then_some(base == Some(slot.id)),
            })
        };
        self.slots.borrow().iter().filter_map(chip).collect()
    }

    /// Identifier of the base: the chosen run, or else the first.
    fn base_id(&self) -> Option<u32> {
        let slots = self.slots.borrow();
        let mut runs = slots.iter().filter(|slot| matches!(slot.what, Some(What::Run(_)))).map(|slot| slot.id);
        let chosen = self.base.get();
        runs.clone().find(|id| Some(*id) == chosen).or_else(|| runs.next())
    }

    /// The runs, under the names of their column heads.
    fn runs(&self) -> Vec<(u32, String, Rc<Run>)> {
        let run = |slot: &Slot| match &slot.what {
            Some(What::Run(run)) => Some((slot.id, slot.name.clone(), run.clone())),
            _ => None,
        };
        let mut runs: Vec<_> = self.slots.borrow().iter().filter_map(run).collect();
        if let Some(heads) = heads(runs.iter().map(|(.., run)| &**run)) {
            runs.iter_mut().zip(heads).for_each(|((_, name, _), head)| *name = head);
        }
        runs
    }

    fn links(&self) -> Vec<(String, Rc<RunSummary>)> {
        let link = |slot: &Slot| match &slot.what {
            Some(What::Link(summary)) => Some((slot.name.clone(), summary.clone())),
            _ => None,
        };
        self.slots.borrow().iter().filter_map(link).collect()
    }

    /// Compares the runs with the base and shows the comparison.
    fn hold(&self) {
        let (runs, base) = (self.runs(), self.base_id());
        let base = runs.iter().position(|(id, ..)| Some(*id) == base).unwrap_or_default();
        if runs.len() < 2 {
            return self.draw();
        }
        let runs: Vec<NamedRun> =
            runs.into_iter().map(|(_, name, run)| NamedRun::new(name, Run::clone(&run))).collect();
        let made = reading::guarded("The comparison", || {
            compare(&runs, &Options { base, resolution: None }).map(|comparison| (comparison, costs(&runs)))
        });
        match made {
            Ok((comparison, costs)) => {
                *self.held.borrow_mut() = Some(Rc::new(Held { runs, comparison, costs }));
                self.draw();
            }
            Err(why) => {
                self.draw();
                self.view.compare_line(&format!("Nothing to show: {why}."));
            }
        }
    }

    /// Applies a change of filter or order: to the address at once, and to the comparison after a pause.
    fn look(self: &Rc<Self>) {
        let look = self.looks.get() + 1;
        self.looks.set(look);
        let this = self.clone();
        spawn_local(async move {
            sleep(PAUSE).await;
            if this.looks.get() == look {
                let (words, by_ratio) = this.view.look();
                let mut pairs: Vec<(&str, &str)> =
                    this.asked.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
                let words = words.join(" ");
                pairs.extend((!words.is_empty()).then_some((FILTER, words.as_str())));
                pairs.extend(by_ratio.then_some((SORT, BY_RATIO)));
                this.view.set_query(&query::write(&pairs));
                this.draw();
            }
        });
    }

    /// Shows the filtered comparison with its plots and calls.
    fn draw(&self) {
        let held = self.held.borrow().clone();
        let (runs, links) = (self.runs(), self.links());
        let (words, by_ratio) = self.view.look();
        let markup = held.as_ref().map(|held| {
            let shown = held.comparison.clone().filtered(&words);
            let shown = if by_ratio { shown.by_ratio() } else { shown.by_case() };
            reading::guarded("The comparison", || match words.is_empty() {
                true => html::comparison(&Registry, &held.runs, &shown, &held.costs),
                false => {
                    let mut runs = held.runs.clone();
                    runs.iter_mut().for_each(|NamedRun { run, .. }| run.retain(|case| any_keeps(&words, case)));
                    html::comparison(&Registry, &runs, &shown, &costs(&runs))
                }
            })
        });
        // A link is compared with the base, or with the first link if there are no runs.
        let base = self.base_id();
        let base = runs.iter().find(|(id, ..)| Some(*id) == base);
        let base = base.map(|(_, name, run)| (name.clone(), Rc::new(RunSummary::of(run))));
        let first_link = (links.len() > 1).then(|| links[0].clone()).filter(|_| base.is_none());
        let ours = base.or(first_link.clone());
        let others = links.iter().skip(usize::from(first_link.is_some()));
        let tables = others.map(|(name, summary)| {
            let ours = ours.as_ref().map(|(name, summary)| (name.as_str(), &**summary));
            (format!("{name} · {FROM_A_LINK}"), reading::guarded(name, || html::linked(summary, ours)))
        });
        let tables: Vec<(String, String)> = tables.collect();
        self.view.compared(markup.as_deref(), &tables);
        self.view.offer_picture(held.is_some_and(|held| !held.costs.is_empty()));
        self.view.compare_line(match runs.len() + links.len() {
            0 => "Choose two or more run files, from this page or from the command line.",
            1 => "One more is needed to compare.",
            _ => "",
        });
    }

    /// Exports the whole comparison as a file, regardless of the filter.
    fn export(&self, export: Export) {
        let Some(held) = self.held.borrow().clone() else { return };
        let (kind, text) = match export {
            Export::Svg | Export::Png => return self.export_pictures(&held, export),
            Export::Markdown => {
                let models = tables_of_models(&held.runs, held.comparison.base);
                let tables = std::iter::once(comparison_table(&held.comparison))
                    .chain(compared_scores(&held.comparison))
                    .chain(models);
                ("text/markdown", tables.map(|table| table.markdown()).collect::<Vec<_>>().join("\n"))
            }
            Export::Csv => ("text/csv", sheet::csv(&sheet::rows(&held.runs, Some(&held.comparison)))),
            Export::Json => {
                let json = serde_json::to_string(&held.comparison).expect("a comparison is JSON");
                ("application/json", json)
            }
        };
        let name = format!("parallax-comparison.{}", export.ending());
        self.view.compare_line(&share::told(&name, share::download(&name, kind, &text).is_ok()));
    }

    /// Exports the cost of each target as a standalone picture.
    fn export_pictures(&self, held: &Held, export: Export) {
        for (stem, picture) in html::cost_pictures(&held.costs) {
            let (view, name) = (self.view.clone(), format!("parallax-{stem}.{}", export.ending()));
            spawn_local(async move {
                let saved = share::download_picture(&name, &picture, export == Export::Png).await;
                view.compare_line(&share::told(&name, saved.is_ok()));
            });
        }
    }
}

impl Source {
    /// Provisional name of the input.
    fn name(&self) -> String {
        match self {
            Source::File(file) => stem(&file.name()),
            Source::Address(address) => stem(address.rsplit('/').next().unwrap_or_default()),
            Source::Kept(id) => moment(*id),
            Source::Link(_) => "The link".to_owned(),
        }
    }
}

/// Name of a file without its extension, cut to 80 characters.
fn stem(name: &str) -> String {
    let stem = name.strip_suffix(".json").unwrap_or(name);
    parallax_report::escape(stem).chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_on_one_line() {
        assert_eq!(stem("cuda.json"), "cuda");
        assert_eq!(stem("a\nb"), "a\\nb");
        assert_eq!(stem(&"x".repeat(500)).len(), 80);
    }
}
