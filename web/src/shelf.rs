//! Runs that this browser keeps: every event of a run as it happens, so that a reload loses nothing, and the last runs can
//! be looked at again. Nothing of it leaves the browser.
//!
//! The database has two stores: `lines`, events as lines of JSON by run and number, and `spines`, what a list of runs
//! shows. Writing is never waited for; when the browser refuses it, the page says so and goes on.

use std::cell::RefCell;
use std::rc::Rc;

use futures_channel::mpsc::unbounded;
use idb::builder::{DatabaseBuilder, ObjectStoreBuilder};
use idb::{Database, Error, KeyRange, Query, TransactionMode};
use js_sys::Array;
use parallax_core::record::{Event, Run, UNFINISHED};
use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;

use crate::environment::{milliseconds, of_this_tab, within};
use crate::reports;

/// Its own: what hands traces over has another, and a database has the stores that it was made with.
const DATABASE: &str = "parallax-runs";
const LINES: &str = "lines";
const SPINES: &str = "spines";
/// Where a tab notes which run it is in the middle of: this outlives a reload, and no other tab sees it.
const RUNNING: &str = "parallax-running";
/// Runs that are kept.
const ROOM: usize = 20;
/// Milliseconds after which a browser that was asked for the database is taken to keep nothing.
const PATIENCE: i32 = 5_000;
/// A run that another tab left is told unfinished when nothing was heard of it for so long.
const SILENCE: f64 = 10.0 * 60e3;

/// What is told of a run without opening it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunMeta {
    /// When it began, in milliseconds since 1970: its key.
    pub id: f64,
    /// Name of its device.
    pub device: String,
    /// What the user calls it.
    #[serde(default)]
    pub name: Option<String>,
    /// What was asked for, in the words of an address.
    pub asked: String,
    /// Cases that ended.
    pub cases: usize,
    /// Cases that were planned.
    pub planned: usize,
    /// Of those that ended, the ones that ran.
    #[serde(default)]
    pub measured: usize,
    /// Whether it came to an end.
    pub ended: bool,
    /// When something was last heard of it, in milliseconds since 1970.
    pub heard: f64,
}

impl RunMeta {
    fn of(id: f64, run: &Run, asked: String) -> RunMeta {
        let (device, name) = (run.device().name.clone(), run.given_name());
        RunMeta { id, device, name, asked, cases: 0, planned: run.planned.len(), measured: 0, ended: false, heard: id }
    }

    fn take(&mut self, event: &Event, now: f64) {
        self.heard = now;
        match event {
            Event::Record { record } => {
                self.cases += 1;
                self.measured += usize::from(record.verdict() != "skipped");
            }
            Event::End { .. } => self.ended = true,
            _ => {}
        }
    }

    /// Whether it was left in the middle: by this tab before it was loaded anew, or by another one long ago.
    pub fn left(&self, by_this_tab: Option<f64>, now: f64) -> bool {
        !self.ended && (by_this_tab == Some(self.id) || now - self.heard > SILENCE)
    }
}

/// The run that is being written.
struct Writing {
    spine: RunMeta,
    /// Lines that have been written.
    number: u32,
    /// Lines that have not.
    untold: String,
}

/// The runs that are kept.
pub struct RunStore {
    database: Database,
    writing: Rc<RefCell<Option<Writing>>>,
    /// Called when the run that is written is not kept, once or more often.
    on_lost: Rc<dyn Fn()>,
}

impl RunStore {
    /// Open it, if the browser keeps anything for this page and says so soon: a run that begins before would not be kept. `on_lost` is
    /// called when the browser has no room for a run, or forbids writing.
    pub async fn open(on_lost: impl Fn() + 'static) -> Option<RunStore> {
        let stores = [LINES, SPINES].map(ObjectStoreBuilder::new);
        let asked =
            stores.into_iter().fold(DatabaseBuilder::new(DATABASE).version(1), DatabaseBuilder::add_object_store);
        let database = within(PATIENCE, asked.build()).await?.ok()?;
        let on_lost = Rc::new(move || {
            of_this_tab(|storage| storage.remove_item(RUNNING));
            on_lost();
        });
        Some(RunStore { database, writing: Rc::default(), on_lost })
    }

    /// A run begins that was asked for in these words of an address.
    pub fn begin(&self, run: &Run, asked: String) {
        let id = milliseconds();
        of_this_tab(|storage| storage.set_item(RUNNING, &id.to_string()));
        *self.writing.borrow_mut() =
            Some(Writing { spine: RunMeta::of(id, run, asked), number: 0, untold: String::new() });
        self.tell(&Event::Begin { run: Box::new(run.clone()) });
    }

    /// Something happened in it. What every round brings waits for the end of a case.
    pub fn tell(&self, event: &Event) {
        let mut writing = self.writing.borrow_mut();
        let Some(run) = &mut *writing else { return };
        if !event.changes_the_run() || matches!(event, Event::Sampling { .. } | Event::Samples { .. }) {
            return;
        }
        run.untold.push_str(&event.line());
        if matches!(event, Event::Drift { .. }) {
            return;
        }
        run.spine.take(event, milliseconds());
        if self.write(run).is_err() {
            *writing = None;
            (self.on_lost)();
        } else if run.spine.ended {
            of_this_tab(|storage| storage.remove_item(RUNNING));
            *writing = None;
        }
    }

    fn write(&self, run: &mut Writing) -> Result<(), Error> {
        let transaction = self.database.transaction(&[LINES, SPINES], TransactionMode::ReadWrite)?;
        let key = Array::of2(&run.spine.id.into(), &run.number.into());
        transaction.object_store(LINES)?.put(&std::mem::take(&mut run.untold).into(), Some(&key))?;
        run.number += 1;
        put(&transaction, &run.spine)?;
        // Said now, because a page that is left closes what it has not committed.
        let mut transaction = transaction.commit()?;
        // Whether there is room shows only then.
        let (tell, mut told) = unbounded();
        for (kept, tell) in [(true, tell.clone()), (false, tell)] {
            let settle = move |_| drop(tell.unbounded_send(kept));
            if kept { transaction.on_complete(settle) } else { transaction.on_abort(settle) }
        }
        let (writing, on_lost) = (self.writing.clone(), self.on_lost.clone());
        spawn_local(async move {
            let kept = told.recv().await;
            drop(transaction);
            if kept != Ok(true) {
                writing.take();
                on_lost();
            }
        });
        Ok(())
    }

    /// What is kept, the last first; of more than there is room for, the oldest go.
    pub async fn spines(&self) -> Result<Vec<RunMeta>, Error> {
        let transaction = self.database.transaction(&[SPINES], TransactionMode::ReadOnly)?;
        let all = transaction.object_store(SPINES)?.get_all(None, None)?.await?;
        let read = |value: JsValue| serde_json::from_str(&value.as_string()?).ok();
        let mut spines: Vec<RunMeta> = all.into_iter().filter_map(read).collect();
        spines.sort_by(|a, b| b.id.total_cmp(&a.id));
        for old in spines.split_off(spines.len().min(ROOM)) {
            self.remove(old.id)?;
        }
        Ok(spines)
    }

    /// Those that were left in the middle.
    pub fn left(spines: &[RunMeta]) -> Vec<&RunMeta> {
        let mine = of_this_tab(|storage| storage.get_item(RUNNING)).flatten().and_then(|id| id.parse().ok());
        spines.iter().filter(|spine| spine.left(mine, milliseconds())).collect()
    }

    /// A run as it was written, which is checked as any file is.
    pub async fn read(&self, id: f64) -> Result<Run, String> {
        let lines = async {
            let transaction = self.database.transaction(&[LINES], TransactionMode::ReadOnly)?;
            transaction.object_store(LINES)?.get_all(Some(lines_of(id)?.into()), None)?.await
        };
        let lines: Vec<JsValue> = lines.await.map_err(|e| e.to_string())?;
        let text = lines.into_iter().collect::<Array>().join("");
        let mut run = reports::read(&text).await?;
        if run.interrupted.as_deref() == Some(UNFINISHED) {
            run.interrupted = Some("the page was left before it was done".to_owned());
        }
        Ok(run)
    }

    /// Say that a run that was left is no longer to be asked about.
    pub fn close(&self, spine: &RunMeta) -> Result<(), Error> {
        of_this_tab(|storage| storage.remove_item(RUNNING));
        let transaction = self.database.transaction(&[SPINES], TransactionMode::ReadWrite)?;
        put(&transaction, &RunMeta { ended: true, ..spine.clone() })
    }

    /// Forget a run.
    pub fn remove(&self, id: f64) -> Result<(), Error> {
        let transaction = self.database.transaction(&[LINES, SPINES], TransactionMode::ReadWrite)?;
        transaction.object_store(LINES)?.delete(Query::from(lines_of(id)?))?;
        transaction.object_store(SPINES)?.delete(JsValue::from(id))?;
        Ok(())
    }
}

fn put(transaction: &idb::Transaction, spine: &RunMeta) -> Result<(), Error> {
    let text = serde_json::to_string(spine).expect("a spine is JSON");
    transaction.object_store(SPINES)?.put(&text.into(), Some(&spine.id.into()))?;
    Ok(())
}

/// Keys of the lines of a run: arrays sort after numbers, so an empty one ends the range.
fn lines_of(id: f64) -> Result<KeyRange, Error> {
    let (first, last) = (Array::of1(&id.into()), Array::of2(&id.into(), &Array::new()));
    KeyRange::bound(&first, &last, None, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_left_by_this_tab_at_once_and_by_others_when_they_are_silent() {
        let spine = RunMeta {
            id: 7.0,
            device: String::new(),
            name: None,
            asked: String::new(),
            cases: 1,
            planned: 3,
            measured: 1,
            ended: false,
            heard: 1e6,
        };
        assert!(spine.left(Some(7.0), 1e6) && !spine.left(Some(8.0), 1e6) && !spine.left(None, 1e6 + 1.0));
        assert!(spine.left(None, 1e6 + 2.0 * SILENCE));
        assert!(!RunMeta { ended: true, ..spine }.left(Some(7.0), 1e6));
    }
}
