//! Remote mode: a command line on this machine started the page and receives every event as it happens.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use js_sys::Promise;
use parallax_schema::record::Event;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, future_to_promise};
use web_sys::{RequestInit, Response};

use crate::environment::{seconds, window};

/// Seconds between two progress reports. Requests share the processor with the measurement.
const TELL_EVERY: f64 = 1.0;

/// Posts events in order.
pub struct Remote {
    path: String,
    /// Lines not yet posted.
    untold: RefCell<String>,
    /// Time of the last progress report.
    told_at: Cell<f64>,
    /// Settles when every event so far has been posted.
    tail: RefCell<Promise>,
    gone: Rc<Cell<bool>>,
}

impl Remote {
    /// Returns a poster to a path of the page's own server.
    pub fn new(path: String) -> Remote {
        Remote {
            path,
            untold: RefCell::default(),
            told_at: Cell::new(0.0),
            tail: RefCell::new(Promise::resolve(&JsValue::UNDEFINED)),
            gone: Rc::default(),
        }
    }

    /// Returns whether the command line has stopped listening. Continuing is then pointless.
    pub fn gone(&self) -> bool {
        self.gone.get()
    }

    /// Returns whether the server accepted every event so far.
    pub async fn taken(&self) -> bool {
        let tail = self.tail.borrow().clone();
        // The promise only ever resolves.
        let _ = JsFuture::from(tail).await;
        !self.gone()
    }

    /// The path that receives the events.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Posts an event. Events of every round wait for the next other event. Progress is limited to one report per interval.
    pub fn tell(&self, event: &Event) {
        if matches!(event, Event::Progress { .. }) {
            let now = seconds();
            if now - self.told_at.get() < TELL_EVERY {
                return;
            }
            self.told_at.set(now);
        }
        self.untold.borrow_mut().push_str(&event.line());
        if !matches!(event, Event::Drift { .. } | Event::Samples { .. }) {
            self.post(self.untold.take());
        }
    }

    fn post(&self, lines: String) {
        let before = self.tail.borrow().clone();
        let (path, gone) = (self.path.clone(), self.gone.clone());
        let next = future_to_promise(async move {
            JsFuture::from(before).await?;
            if !gone.get() && post(&path, &lines).await.is_err() {
                gone.set(true);
            }
            Ok(JsValue::UNDEFINED)
        });
        *self.tail.borrow_mut() = next;
    }
}

async fn post(path: &str, body: &str) -> Result<(), JsValue> {
    let init = RequestInit::new();
    init.set_method("POST");
    init.set_body(&body.into());
    let response: Response = JsFuture::from(window().fetch_with_str_and_init(path, &init)).await?.dyn_into()?;
    // Static file servers answer unknown requests with a page.
    let said = JsFuture::from(response.text()?).await?.as_string().unwrap_or_default();
    if response.ok() && said.is_empty() { Ok(()) } else { Err(response.status().into()) }
}

/// Reports a fatal bug of the page in one synchronous call, past the queue.
pub fn last_words(path: &str, reason: &str) {
    let event = Event::End { interrupted: Some(reason.to_owned()), environment: BTreeMap::new() }.line();
    // A failure here has no remedy. The command line notices the silence.
    let _ = window().navigator().send_beacon_with_opt_str(path, Some(&event));
}
