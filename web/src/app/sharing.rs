//! Exports of the page, and the summary from its link.

use std::rc::Rc;

use parallax_report::{escape, html};
use parallax_schema::record::{Run, RunSummary};
use wasm_bindgen_futures::spawn_local;

use super::App;
use crate::view::{Tone, View};
use crate::{link, reports, share};

/// Shows the summary of the page's address and returns it. A broken one becomes a notice.
pub(super) fn came_with_the_page(view: &View) -> Option<RunSummary> {
    view.clear_notice("link");
    match RunSummary::from_link(link::payload(&view.fragment())?) {
        Ok(summary) => {
            view.linked(&summary, None);
            Some(summary)
        }
        Err(why) => {
            view.no_link();
            view.notice("link", Tone::Error, "The results in this link cannot be shown.", &format!("{why}."));
            None
        }
    }
}

/// Shows the results of the page's address alone. Nothing runs, so another site may show this view in a frame.
pub fn embedded() {
    let view = View::new();
    view.embedded();
    let shown = came_with_the_page(&view).is_some();
    if !shown && link::payload(&view.fragment()).is_none() {
        view.notice(
            "link",
            Tone::Error,
            "No results.",
            "The address of a frame ends with results, as Share link copies them.",
        );
    }
}

impl App {
    /// Connects the controls that export the run, and those of the linked summary.
    pub(super) fn listen_to_sharing(self: &Rc<Self>) {
        self.view.close_menus();
        let app = self.clone();
        self.view.on_download_json(move || {
            if let Some(run) = &*app.run.borrow() {
                app.save(run, "json", "application/json", &share::json(run));
            }
        });
        let app = self.clone();
        self.view.on_download_report(move || spawn_local(app.clone().download_report()));
        let app = self.clone();
        self.view.on_download_trace(move || spawn_local(app.clone().download_trace()));
        for (ending, as_pixels) in [("svg", false), ("png", true)] {
            let app = self.clone();
            self.view.on_download_roofline(ending, move || app.download_roofline(ending, as_pixels));
        }
        let app = self.clone();
        self.view.on_download_card(move || spawn_local(app.clone().download_card()));
        let app = self.clone();
        self.view.on_card_of_link(move || spawn_local(app.clone().download_card_of_link()));
        let app = self.clone();
        self.view.on_open_trace(move || spawn_local(app.clone().open_trace()));
        let app = self.clone();
        self.view.on_send(move || spawn_local(app.clone().send_to_collector()));
        let app = self.clone();
        self.view.on_copy_link(move || {
            let link = link::to_settings(&app.view.place(), &app.query(&app.spec.borrow()));
            app.copy("The link", link, "It contains the settings, not the results.");
        });
        let app = self.clone();
        self.view.on_copy_results(move || {
            let Some(summary) = app.run.borrow().as_ref().map(RunSummary::of) else { return };
            let link = link::to_results(&app.view.place(), &summary);
            app.copy("The link", link, "It contains the settings and a summary of the results; nothing was uploaded.");
        });
        let app = self.clone();
        self.view.on_copy_embedded(move || {
            let Some(summary) = app.run.borrow().as_ref().map(RunSummary::of) else { return };
            let code = link::to_embedded(&app.view.place(), &summary);
            app.copy("The code", code, "Another page shows these results with it.");
        });
        let app = self.clone();
        self.view.on_run_linked(move || spawn_local(app.clone().run_as_linked()));
        let app = self.clone();
        self.view.on_compare_linked(move || spawn_local(app.clone().compare_linked()));
        let app = self.clone();
        self.view.on_new_link(move || {
            // An anchor of the page is not a link to results.
            if link::payload(&app.view.fragment()).is_none() {
                return;
            }
            *app.linked.borrow_mut() = came_with_the_page(&app.view);
            app.offer_to_run_as_linked();
        });
        self.offer_to_run_as_linked();
    }

    fn save(&self, run: &Run, ending: &str, kind: &str, text: &str) {
        let name = format!("{}.{ending}", run.file_stem());
        self.view.share_line(&share::told(&name, share::download(&name, kind, text).is_ok()));
    }

    async fn download_report(self: Rc<Self>) {
        let Some(run) = self.run.borrow().clone() else { return };
        self.view.share_line("Preparing the report …");
        match reports::report(&run).await {
            Ok(report) => self.save(&run, "html", "text/html", &report),
            Err(why) => self.view.share_line(&why),
        }
    }

    /// The trace of the latest run, once it is ready.
    async fn trace(&self) -> Option<(Run, String)> {
        let run = self.run.borrow().clone()?;
        self.view.share_line("Preparing the trace …");
        match reports::trace(&run).await {
            Ok(trace) => Some((run, trace)),
            Err(why) => {
                self.view.share_line(&why);
                None
            }
        }
    }

    async fn download_trace(self: Rc<Self>) {
        if let Some((run, trace)) = self.trace().await {
            self.save(&run, "trace.json", "application/json", &trace);
        }
    }

    async fn open_trace(self: Rc<Self>) {
        if let Some((run, trace)) = self.trace().await {
            let title = format!("Parallax · {} · {}", escape(&run.target), escape(&run.device().name));
            let view = self.view.clone();
            share::open_trace(&trace, &title, move |line| view.share_line(line)).await;
        }
    }

    /// Downloads the roofline as a standalone picture.
    fn download_roofline(&self, ending: &str, as_pixels: bool) {
        let Some((name, picture)) = self
            .run
            .borrow()
            .as_ref()
            .and_then(|run| Some((format!("{}-roofline.{ending}", run.file_stem()), html::roofline_alone(run)?)))
        else {
            return self.view.share_line("No case of this run does arithmetic, so there is no roofline.");
        };
        let view = self.view.clone();
        spawn_local(async move {
            let saved = share::download_picture(&name, &picture, as_pixels).await;
            view.share_line(&share::told(&name, saved.is_ok()));
        });
    }

    async fn download_card(self: Rc<Self>) {
        let Some(run) = self.run.borrow().clone() else { return };
        self.save_card(format!("{}-card.png", run.file_stem()), reports::card(&run).await).await;
    }

    async fn download_card_of_link(self: Rc<Self>) {
        let fragment = self.view.fragment();
        if let Some(payload) = link::payload(&fragment) {
            self.save_card("parallax-card.png".to_owned(), reports::card_of_link(payload).await).await;
        }
    }

    /// Saves a card about results as a picture.
    async fn save_card(&self, name: String, card: Result<String, String>) {
        self.view.share_line(&match card {
            Ok(card) => share::told(&name, share::download_card(&name, &card).await.is_ok()),
            Err(why) => why,
        });
    }

    /// Sends the latest run to the collector that serves the page, if there is one.
    pub(super) async fn send_to_collector(self: Rc<Self>) {
        let (Some(collector), Some(run)) = (&self.collector, self.run.borrow().as_ref().map(share::json)) else {
            return;
        };
        self.view.share_line("Sending to the collector …");
        let waits = |seconds| self.view.share_line(&format!("The collector is busy; sending again in {seconds} s …"));
        match collector.send(&run, waits).await {
            Ok(kept) => self.view.on_collector(&kept, &collector.link()),
            Err(why) => self.view.share_line(&why),
        }
    }

    /// Copies a text to the clipboard, and reports its name and its contents.
    fn copy(&self, name: &'static str, text: String, what: &'static str) {
        let view = self.view.clone();
        spawn_local(async move {
            view.share_line(&match share::copy(&text).await {
                Ok(()) => format!("{name} is on the clipboard. {what}"),
                Err(_) => format!("The browser did not allow copying. {name} is {text}"),
            });
        });
    }

    /// Shows a local run beside the linked summary.
    pub(super) fn hold_against_the_link(&self, name: &str, run: &Run) {
        if let Some(linked) = &*self.linked.borrow() {
            self.view.linked(linked, Some((name, &RunSummary::of(run))));
        }
    }

    fn offer_to_run_as_linked(&self) {
        let known = self.linked.borrow().as_ref().and_then(RunSummary::spec).is_some_and(|spec| spec.is_ok());
        self.view.offer_to_run_as_linked(known && self.remote.is_none());
    }

    /// Shows the newest finished kept run beside the linked results.
    async fn compare_linked(self: Rc<Self>) {
        let newest = self
            .kept
            .borrow()
            .iter()
            .filter(|spine| spine.ended)
            .max_by(|a, b| a.id.total_cmp(&b.id))
            .map(|spine| spine.id);
        let (Some(shelf), Some(newest)) = (&self.shelf, newest) else { return };
        match shelf.read(newest).await {
            Ok(run) => self.hold_against_the_link("your last run", &run),
            Err(why) => self.view.notice("kept", Tone::Error, "That run cannot be shown.", &why),
        }
    }

    /// Runs the spec of the linked run.
    async fn run_as_linked(self: Rc<Self>) {
        let spec = self.linked.borrow().as_ref().and_then(RunSummary::spec);
        let Some(Ok(spec)) = spec.filter(|_| !self.running.get()) else { return };
        self.set_spec(spec);
        if self.make_plan().await.is_ok() {
            self.measure().await;
        }
    }
}
