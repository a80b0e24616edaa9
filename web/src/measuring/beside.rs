//! The page's hold on the worker beside it.

use std::cell::RefCell;

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use js_sys::{Object, Reflect};
use wasm_bindgen::prelude::*;
use web_sys::{ErrorEvent, MessageEvent, Worker, WorkerOptions, WorkerType};

use super::protocol::{Order, Word};
use super::threads;
use crate::environment::{isolated, within};
use crate::target::{Target, Way};

#[wasm_bindgen]
extern "C" {
    /// Address of the script that goes with this program.
    #[wasm_bindgen(thread_local_v2, js_namespace = ["import", "meta"], js_name = url)]
    pub(super) static GLUE: String;
}

/// What starts a program in a worker, from the page's folder and from its own.
pub(super) const SCRIPT: &str = "./measuring.js";
/// This program compiled for memory that threads share, where the page has it: the script that goes with it, and itself. Under
/// names of their own for each commit, so that no cache mixes them.
const FOR_THREADS: [&str; 2] = [
    concat!("./threads/parallax-web.js?", env!("PARALLAX_COMMIT")),
    concat!("./threads/parallax-web_bg.wasm?", env!("PARALLAX_COMMIT")),
];
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

/// What came of starting one.
pub struct Started {
    /// It, and what it says; none where the browser has no workers that can measure this way.
    pub worker: Option<(Beside, UnboundedReceiver<Word>)>,
    /// What the record says of it.
    pub remark: Option<String>,
}

/// Whether more than one thread can be had, or why not.
pub fn more_threads() -> Result<u32, &'static str> {
    match threads::most() {
        1 => Err("the browser says that there is one"),
        _ if !cfg!(target_feature = "simd128") => {
            Err("the browser does not compute in vectors, as the program for more does")
        }
        _ if !isolated() => Err("the page is not isolated, so that its workers share no memory"),
        more => Ok(more),
    }
}

impl Beside {
    /// Start one for this way, with the program for threads where it takes more than one.
    pub async fn start(way: Way) -> Started {
        let one = way.threads.is_some_and(|threads| threads.get() == 1);
        let remark = match (one, more_threads()) {
            (true, _) => None,
            (false, Err(why)) => Some(format!("one thread: {why}")),
            (false, Ok(_)) => {
                let [glue, program] = FOR_THREADS.map(JsValue::from);
                match Beside::start_with(way, glue, program).await {
                    None => Some("one thread: the page's program for more did not start".to_owned()),
                    worker => return Started { worker, remark: None },
                }
            }
        };
        let own = GLUE.with(|glue| JsValue::from(glue.as_str()));
        let worker = Beside::start_with(way, own, wasm_bindgen::module()).await;
        // What a GPU computes takes the same time; only inputs and checks wait longer.
        Started { worker, remark: remark.filter(|_| way.target == Target::Wasm) }
    }

    async fn start_with(way: Way, glue: JsValue, program: JsValue) -> Option<(Beside, UnboundedReceiver<Word>)> {
        let (sender, mut words) = unbounded();
        let beside = Beside::new(sender, glue, program).ok()?;
        let first = within(PATIENCE, words.recv()).await;
        let able = matches!(first, Some(Ok(Word::Ready { webgpu })) if webgpu || way.target == Target::Wasm);
        able.then_some((beside, words))
    }

    fn new(words: UnboundedSender<Word>, glue: JsValue, program: JsValue) -> Result<Beside, JsValue> {
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
        Reflect::set(&first, &"glue".into(), &glue)?;
        Reflect::set(&first, &"program".into(), &program)?;
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
