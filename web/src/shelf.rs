//! Kept runs of this browser. The store has every event of a run as it happens, so that a reload loses nothing. The latest runs
//! remain available. No data leaves the browser.
//!
//! The database has two stores. `lines` has events as lines of JSON by run and number; `spines` has the metadata for a list of
//! runs. No code waits for a write. If the browser refuses one, the page reports it and goes on.

use std::cell::RefCell;
use std::rc::Rc;

use futures_channel::mpsc::unbounded;
use idb::builder::{DatabaseBuilder, ObjectStoreBuilder};
use idb::{Database, Error, KeyRange, Query, TransactionMode};
use js_sys::Array;
use parallax_schema::record::{Event, Run, UNFINISHED};
use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;

use crate::environment::{milliseconds, of_this_tab, within};
use crate::reports;

/// Name of this database. The trace hand-over has another one, because a database keeps the stores that it was created with.
const DATABASE: &str = "parallax-runs";
const LINES: &str = "lines";
const SPINES: &str = "spines";
/// Storage key of the current run in a tab. It outlives a reload, and other tabs do not see it.
const RUNNING: &str = "parallax-running";
/// Maximum number of kept runs.
const ROOM: usize = 20;
/// Milliseconds after which a browser without an answer about the database counts as keeping nothing.
const PATIENCE: i32 = 5_000;
/// Milliseconds of silence after which a run of another tab counts as unfinished.
const SILENCE: f64 = 10.0 * 60e3;

/// Metadata of a run, readable without its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunMeta {
    /// Start in milliseconds since 1970. It is the run's key.
    pub id: f64,
    /// Name of its device.
    pub device: String,
    /// Name of the device from the user.
    #[serde(default)]
    pub name: Option<String>,
    /// The spec as a query of an address.
    pub asked: String,
    /// Number of ended cases.
    pub cases: usize,
    /// Number of planned cases.
    pub planned: usize,
    /// Number of ended cases that ran.
    #[serde(default)]
    pub measured: usize,
    /// Whether the run ended.
    pub ended: bool,
    /// Time of the last event, in milliseconds since 1970.
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

    /// Returns whether the run was interrupted: by a reload of this tab, or by another tab long ago.
    pub fn left(&self, by_this_tab: Option<f64>, now: f64) -> bool {
        !self.ended && (by_this_tab == Some(self.id) || now - self.heard > SILENCE)
    }
}

/// The run in writing.
struct Writing {
    spine: RunMeta,
    /// Number of written lines.
    number: u32,
    /// Lines not yet written.
    untold: String,
}

/// The store of kept runs.
pub struct RunStore {
    database: Database,
    writing: Rc<RefCell<Option<Writing>>>,
    /// Called once or more often if the current run cannot be kept.
    on_lost: Rc<dyn Fn()>,
}

impl RunStore {
    /// Opens the store; `None` if the browser keeps nothing for this page or does not answer soon. A run that begins earlier would
    /// not be kept. `on_lost` is called if the browser has no room for a run or forbids writing.
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

    /// Begins a run with this spec, as a query of an address.
    pub fn begin(&self, run: &Run, asked: String) {
        let id = milliseconds();
        of_this_tab(|storage| storage.set_item(RUNNING, &id.to_string()));
        *self.writing.borrow_mut() =
            Some(Writing { spine: RunMeta::of(id, run, asked), number: 0, untold: String::new() });
        self.tell(&Event::Begin { run: Box::new(run.clone()) });
    }

    /// Records an event. Events of every round wait for the end of a case.
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
        // Commit now, because a page that closes loses uncommitted writes.
        let mut transaction = transaction.commit()?;
        // Only the commit shows a lack of room.
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

    /// Metadata of the kept runs, newest first. The oldest runs beyond the limit are removed.
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

    /// Interrupted runs.
    pub fn left(spines: &[RunMeta]) -> Vec<&RunMeta> {
        let mine = of_this_tab(|storage| storage.get_item(RUNNING)).flatten().and_then(|id| id.parse().ok());
        spines.iter().filter(|spine| spine.left(mine, milliseconds())).collect()
    }

    /// Reads a run as written, with the checks of any file.
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

    /// Marks an interrupted run as ended, so that the page does not ask about it again.
    pub fn close(&self, spine: &RunMeta) -> Result<(), Error> {
        of_this_tab(|storage| storage.remove_item(RUNNING));
        let transaction = self.database.transaction(&[SPINES], TransactionMode::ReadWrite)?;
        put(&transaction, &RunMeta { ended: true, ..spine.clone() })
    }

    /// Removes a run.
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

/// Keys of a run's lines. Arrays sort after numbers, so an empty one ends the range.
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
