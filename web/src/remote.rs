//! Remote mode: a command line on this machine started the page and wants every event as it happens.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use js_sys::Promise;
use parallax_core::record::{Baseline, Drift, Record, Run};
use serde_json::{Value, json};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, future_to_promise};
use web_sys::{RequestInit, Response};

use crate::environment::window;

/// Posts events in order.
pub struct Remote {
    path: String,
    /// Settles when every event so far has been posted.
    tail: RefCell<Promise>,
    gone: Rc<Cell<bool>>,
}

impl Remote {
    /// To a path of the server that the page came from.
    pub fn new(path: String) -> Remote {
        Remote { path, tail: RefCell::new(Promise::resolve(&JsValue::UNDEFINED)), gone: Rc::default() }
    }

    /// Whether nobody listens any more, so that going on is pointless.
    pub fn gone(&self) -> bool {
        self.gone.get()
    }

    /// The device is open and the plan is made; `run` has no records yet.
    pub fn begin(&self, run: &Run) {
        self.post(json!({ "event": "begin", "run": run }));
    }

    /// A case begins.
    pub fn started(&self, case: &str) {
        self.post(json!({ "event": "started", "case": case }));
    }

    /// Clocks are tested and ceilings measured.
    pub fn baseline(&self, baseline: &Baseline) {
        self.post(json!({ "event": "baseline", "baseline": baseline }));
    }

    /// So much is done, from 0 to 1; and looks at the canary that have not been told yet.
    pub fn progress(&self, share: f64, drift: &[Drift]) {
        self.post(json!({ "event": "progress", "share": share, "drift": drift }));
    }

    /// A case ended.
    pub fn record(&self, record: &Record) {
        self.post(json!({ "event": "record", "record": record }));
    }

    /// The run ended; the environment is repeated because it may say more than at the beginning.
    pub fn end(&self, run: &Run, untold: &[Drift]) {
        self.post(json!({
            "event": "end",
            "interrupted": run.interrupted,
            "environment": run.environment,
            "drift": untold,
            "spent": run.spent,
        }));
    }

    /// There is nothing to run on, or nothing to run.
    pub fn unavailable(&self, reason: &str) {
        self.post(json!({ "event": "unavailable", "reason": reason }));
    }

    fn post(&self, event: Value) {
        let before = self.tail.borrow().clone();
        let (path, gone) = (self.path.clone(), self.gone.clone());
        let next = future_to_promise(async move {
            JsFuture::from(before).await?;
            if !gone.get() && post(&path, &event.to_string()).await.is_err() {
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
    if response.ok() { Ok(()) } else { Err(response.status().into()) }
}

/// The page is about to die of a bug: say so in one synchronous call, past the queue.
pub fn last_words(path: &str, reason: &str) {
    let event = json!({ "event": "end", "interrupted": reason }).to_string();
    // Nothing is left to do when this fails; the command line notices the silence.
    let _ = window().navigator().send_beacon_with_opt_str(path, Some(&event));
}
