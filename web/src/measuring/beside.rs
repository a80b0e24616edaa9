//! The page's hold on the worker beside it.

use std::cell::RefCell;

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use js_sys::{Object, Reflect};
use wasm_bindgen::prelude::*;
use web_sys::{ErrorEvent, MessageEvent, Worker, WorkerOptions, WorkerType};

use super::protocol::{Order, Word};
use crate::environment::within;
use crate::target::Target;

#[wasm_bindgen]
extern "C" {
    /// Address of the script that goes with this program.
    #[wasm_bindgen(thread_local_v2, js_namespace = ["import", "meta"], js_name = url)]
    static GLUE: String;
}

/// What starts this program in a worker.
const SCRIPT: &str = "./measuring.js";
/// Milliseconds after which a worker that has not started is given up.
const PATIENCE: i32 = 10_000;

thread_local! {
    /// The one that lives, to be ended by a page that breaks.
    static LIVING: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

/// A worker, which ends when this is dropped.
pub struct Beside {
    worker: Worker,
    _on_message: Closure<dyn FnMut(MessageEvent)>,
    _on_error: Closure<dyn FnMut(ErrorEvent)>,
}

impl Beside {
    /// Start one, where the browser has workers that can measure this target.
    pub async fn start(target: Target) -> Option<(Beside, UnboundedReceiver<Word>)> {
        let (sender, mut words) = unbounded();
        let beside = Beside::new(sender).ok()?;
        let first = within(PATIENCE, words.recv()).await;
        let able = matches!(first, Some(Ok(Word::Ready { webgpu })) if webgpu || target == Target::Wasm);
        able.then_some((beside, words))
    }

    fn new(words: UnboundedSender<Word>) -> Result<Beside, JsValue> {
        let options = WorkerOptions::new();
        options.set_type(WorkerType::Module);
        let worker = Worker::new_with_options(SCRIPT, &options)?;
        LIVING.set(Some(worker.clone()));
        let broken = words.clone();
        // Nobody hears any more only when the worker is about to be ended.
        let _on_message = Closure::<dyn FnMut(MessageEvent)>::new(move |message: MessageEvent| {
            let line = message.data().as_string().unwrap_or_default();
            let _ = words.unbounded_send(serde_json::from_str(&line).expect("the worker posts words"));
        });
        let _on_error = Closure::<dyn FnMut(ErrorEvent)>::new(move |error: ErrorEvent| {
            // It is told in the page, and is no error of the page's.
            error.prevent_default();
            let _ = broken.unbounded_send(Word::Broken(error.message()));
        });
        worker.set_onmessage(Some(_on_message.as_ref().unchecked_ref()));
        worker.set_onerror(Some(_on_error.as_ref().unchecked_ref()));
        let beside = Beside { worker, _on_message, _on_error };
        let first = Object::new();
        Reflect::set(&first, &"glue".into(), &GLUE.with(|glue| JsValue::from(glue.as_str())))?;
        Reflect::set(&first, &"program".into(), &wasm_bindgen::module())?;
        beside.worker.post_message(&first)?;
        Ok(beside)
    }

    /// A way to give it orders, which leads nowhere after its end.
    pub fn orders(&self) -> impl Fn(Order) + use<> {
        let worker = self.worker.clone();
        move |order| {
            let line = serde_json::to_string(&order).expect("an order is JSON");
            // A string can always be posted.
            let _ = worker.post_message(&line.into());
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.worker.set_onmessage(None);
        self.worker.set_onerror(None);
        self.worker.terminate();
    }
}

/// End what measures beside a page that is broken.
pub fn abandon() {
    if let Some(worker) = LIVING.take() {
        worker.terminate();
    }
}
