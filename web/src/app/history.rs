//! Kept runs of this browser: their list and the actions on them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use parallax_report::CaseInfo;
use parallax_schema::record::{Run, given_name};
use wasm_bindgen_futures::spawn_local;

use super::App;
use crate::environment::of_this_site;
use crate::shelf::RunStore;
use crate::view::{Recorded, Tone, Wish};
use crate::words::moment;
use crate::{environment, reading, reports};

/// Storage key of the device's name.
const DEVICE_NAME: &str = "parallax-device-name";

/// List of the site's recorded runs, in this page's folder.
const RECORDED: &str = "recorded.json";
/// Maximum number of offered recorded runs.
const OFFERED: usize = 4;

impl App {
    /// Restores the device's name of the last visit, and stores each new name.
    pub(super) fn remember_the_name(&self) {
        let known = of_this_site(|kept| kept.get_item(DEVICE_NAME)).flatten();
        self.view.set_device_name(&known.and_then(|name| given_name(&name)).unwrap_or_default());
        let view = self.view.clone();
        self.view.on_device_name(move || {
            let name = given_name(&view.device_name());
            of_this_site(|kept| match &name {
                Some(name) => kept.set_item(DEVICE_NAME, name),
                None => kept.remove_item(DEVICE_NAME),
            });
            view.set_device_name(&name.unwrap_or_default());
        });
    }

    /// Connects the buttons of the kept runs.
    pub(super) fn listen_to_wishes(self: &Rc<Self>) {
        let app = self.clone();
        self.view.on_wish(move |wish, id| spawn_local(app.clone().grant(wish, id)));
    }

    /// Shows the kept runs, and a question about an interrupted one.
    pub(super) async fn show_history(self: Rc<Self>) {
        let Some(shelf) = &self.shelf else { return };
        let spines = shelf.spines().await.unwrap_or_default();
        self.view.history(&spines);
        let newest = spines.iter().filter(|spine| spine.ended).map(|spine| spine.id).max_by(f64::total_cmp);
        self.view.offer_to_compare(self.recalled.get().or(newest));
        self.view.offer_to_compare_the_link(spines.iter().any(|spine| spine.ended));
        self.offer_recorded(newest).await;
        *self.kept.borrow_mut() = spines.clone();
        self.tell_time();
        match RunStore::left(&spines).first() {
            Some(left) if !self.running.get() => self.view.left(left),
            _ => self.view.clear_notice("left"),
        }
    }

    /// Offers to compare the newest finished run with the site's recorded runs, if the page belongs to a site.
    async fn offer_recorded(&self, newest: Option<f64>) {
        let Some(newest) = newest.filter(|_| environment::site().is_some()) else { return };
        // A site of an older version has no such list.
        let Ok(text) = reading::text_at(RECORDED).await else { return };
        let recorded: Vec<Recorded> = serde_json::from_str(&String::from(text)).unwrap_or_default();
        self.view.offer_recorded(&recorded[..recorded.len().min(OFFERED)], newest);
    }

    /// Carries out an action on a kept run.
    async fn grant(self: Rc<Self>, wish: Wish, id: f64) {
        let Some(shelf) = &self.shelf else { return };
        let spines = shelf.spines().await.unwrap_or_default();
        let spine = spines.iter().find(|spine| spine.id == id);
        // A browser that cannot write any more shows the same list again.
        match (wish, spine) {
            (Wish::Remove, _) => drop(shelf.remove(id)),
            (Wish::Keep, Some(spine)) => drop(shelf.close(spine)),
            _ => {}
        }
        if wish != Wish::Remove && !self.running.get() {
            match recalled(shelf, id).await {
                // Another run may have begun meanwhile.
                Ok(_) if self.running.get() => {}
                Ok((run, known)) => {
                    self.recall(run, known, id);
                    spawn_local(self.clone().show_model_time());
                }
                Err(why) => self.view.notice("kept", Tone::Error, "That run cannot be shown.", &why),
            }
        }
        self.show_history().await;
    }

    /// Shows a kept run in place of the latest one.
    fn recall(&self, run: Run, known: BTreeMap<String, CaseInfo>, id: f64) {
        ["kept", "not-kept"].iter().for_each(|notice| self.view.clear_notice(notice));
        self.recalled.set(Some(id));
        *self.known.borrow_mut() = known;
        self.view.begin();
        for record in run.records.iter().filter(|record| record.verdict() != "skipped") {
            self.show(record, &run, &BTreeSet::new());
        }
        let ended = run.interrupted.as_ref().map_or(String::new(), |why| format!(" It ended early: {why}."));
        self.view.results(&run, &format!("The run of {} on {}.{ended} ", moment(id), run.called()));
        self.hold_against_the_link("the kept run", &run);
        *self.run.borrow_mut() = Some(run);
    }
}

/// Returns a kept run and the workload facts of its records.
async fn recalled(shelf: &RunStore, id: f64) -> Result<(Run, BTreeMap<String, CaseInfo>), String> {
    let run = shelf.read(id).await?;
    let known = reports::known(&run).await?;
    Ok((run, known))
}
