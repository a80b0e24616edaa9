//! The page's handle of the worker, which runs in a worker thread or in the page itself.

use std::cell::RefCell;
use std::rc::Rc;

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use js_sys::{Object, Reflect};
use parallax_protocol::messages::{Request, Response};
use parallax_protocol::target::{Target, TargetConfig};
use parallax_protocol::{SCRIPT, error_text};
use wasm_bindgen::prelude::*;
use web_sys::{ErrorEvent, MessageEvent, MessagePort, Worker, WorkerOptions, WorkerType};

use super::RequestSender;
use super::awaited::Awaited;
use super::programs::{ONE_THREAD, Program, for_threads};
use crate::environment::within;

#[wasm_bindgen(module = "/src/measuring/here.js")]
extern "C" {
    #[wasm_bindgen(catch)]
    async fn here(glue: &str, program: &str) -> Result<JsValue, JsValue>;
}

/// Milliseconds after which a worker that has not started is abandoned.
const PATIENCE: i32 = 10_000;

thread_local! {
    /// The live worker. A page that breaks terminates it.
    static LIVING: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

/// Place of the program.
enum Place {
    Worker(Worker),
    Page(MessagePort),
}

/// Handle of the program that measures. Dropping it closes the device.
pub struct WorkerHandle {
    place: Place,
    awaited: Awaited,
    _on_message: Closure<dyn FnMut(MessageEvent)>,
    _on_error: Option<Closure<dyn FnMut(ErrorEvent)>>,
}

/// Result of a start.
pub struct SpawnedWorker {
    /// The handle.
    pub worker: WorkerHandle,
    /// The responses.
    pub words: UnboundedReceiver<Response>,
    /// Entry of the record about the worker.
    pub remark: Option<String>,
}

/// Starts a worker for this configuration. It has several threads if the target needs them, and its own worker if that can measure.
///
/// # Errors
/// The reason of the failure.
pub async fn start(way: TargetConfig) -> Result<SpawnedWorker, String> {
    let remark = match for_threads(way) {
        Ok(None) => None,
        Err(why) => Some(format!("one thread: {why}")),
        Ok(Some(program)) => match WorkerHandle::in_a_worker(way, program).await {
            None => Some("one thread: the page's program for several threads did not start".to_owned()),
            Some((worker, words)) => return Ok(SpawnedWorker { worker, words, remark: None }),
        },
    };
    let (worker, words) = match WorkerHandle::in_a_worker(way, ONE_THREAD).await {
        Some(started) => started,
        None => WorkerHandle::in_the_page(ONE_THREAD)
            .await
            .map_err(|why| format!("The worker did not start: {}", error_text(&why)))?,
    };
    // GPU results take the same time. Only inputs and checks take longer.
    Ok(SpawnedWorker { worker, words, remark: remark.filter(|_| way.target == Target::Wasm) })
}

/// Forwards a response. The receiver is gone only if the worker is about to end.
fn hand_over(word: Response, awaited: &Awaited, words: &UnboundedSender<Response>) {
    if let Some(word) = awaited.take(word) {
        let _ = words.unbounded_send(word);
    }
}

fn hear(awaited: Awaited, words: UnboundedSender<Response>) -> Closure<dyn FnMut(MessageEvent)> {
    Closure::new(move |message: MessageEvent| {
        let line = message.data().as_string().unwrap_or_default();
        hand_over(Response::from_line(&line).expect("the worker posts responses"), &awaited, &words);
    })
}

impl WorkerHandle {
    /// Tries twice: a worker loses its script if the page's service worker is replaced meanwhile.
    async fn in_a_worker(way: TargetConfig, program: Program) -> Option<(WorkerHandle, UnboundedReceiver<Response>)> {
        for _ in 0..2 {
            let (sender, mut words) = unbounded();
            let worker = WorkerHandle::new(way, program, sender).ok()?;
            match within(PATIENCE, words.recv()).await? {
                Ok(Response::Ready { webgpu }) => {
                    return (webgpu || way.target == Target::Wasm).then_some((worker, words));
                }
                Ok(Response::Broken { .. }) => {}
                _ => return None,
            }
        }
        None
    }

    fn new(way: TargetConfig, program: Program, words: UnboundedSender<Response>) -> Result<WorkerHandle, JsValue> {
        let options = WorkerOptions::new();
        options.set_type(WorkerType::Module);
        let worker = Worker::new_with_options(SCRIPT, &options)?;
        LIVING.set(Some(worker.clone()));
        let awaited = Awaited::default();
        let (broken, awaited_too) = (words.clone(), awaited.clone());
        let on_error = Closure::<dyn FnMut(ErrorEvent)>::new(move |error: ErrorEvent| {
            // The page reports the error, which is not the page's own.
            error.prevent_default();
            hand_over(Response::Broken { why: error.message() }, &awaited_too, &broken);
        });
        let _on_message = hear(awaited.clone(), words);
        worker.set_onmessage(Some(_on_message.as_ref().unchecked_ref()));
        worker.set_onerror(Some(on_error.as_ref().unchecked_ref()));
        let handle =
            WorkerHandle { place: Place::Worker(worker.clone()), awaited, _on_message, _on_error: Some(on_error) };
        let first = Object::new();
        Reflect::set(&first, &"glue".into(), &program.glue.into())?;
        Reflect::set(&first, &"program".into(), &program.wasm.into())?;
        Reflect::set(&first, &"threads".into(), &program.threads.into())?;
        Reflect::set(&first, &"gpu".into(), &(way.target == Target::Browser).into())?;
        worker.post_message(&first)?;
        Ok(handle)
    }

    async fn in_the_page(
        Program { glue, wasm, .. }: Program,
    ) -> Result<(WorkerHandle, UnboundedReceiver<Response>), JsValue> {
        let port: MessagePort = here(glue, wasm).await?.unchecked_into();
        let (sender, mut words) = unbounded();
        let awaited = Awaited::default();
        let _on_message = hear(awaited.clone(), sender);
        port.set_onmessage(Some(_on_message.as_ref().unchecked_ref()));
        let worker = WorkerHandle { place: Place::Page(port), awaited, _on_message, _on_error: None };
        match words.recv().await {
            Ok(Response::Ready { .. }) => Ok((worker, words)),
            other => Err(format!("it said {other:?}").into()),
        }
    }

    /// Place of the program: `worker` or `page`.
    pub fn place(&self) -> &'static str {
        match self.place {
            Place::Worker(_) => "worker",
            Place::Page(_) => "page",
        }
    }

    /// Returns a sender of requests, which has no effect after the program's end.
    pub fn orders(&self) -> RequestSender {
        let post: Box<dyn Fn(JsValue) -> Result<(), JsValue>> = match &self.place {
            Place::Worker(worker) => {
                let worker = worker.clone();
                Box::new(move |line| worker.post_message(&line))
            }
            Place::Page(port) => {
                let port = port.clone();
                Box::new(move |line| port.post_message(&line))
            }
        };
        let give = move |order: Request| {
            let line = serde_json::to_string(&order).expect("an order is JSON");
            // Posting a string cannot fail.
            let _ = post(line.into());
        };
        RequestSender { give: Rc::new(give), awaited: self.awaited.clone() }
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.awaited.give_up();
        match &self.place {
            Place::Worker(worker) => {
                worker.set_onmessage(None);
                worker.set_onerror(None);
                worker.terminate();
            }
            Place::Page(port) => {
                port.set_onmessage(None);
                (self.orders().give)(Request::Close);
            }
        }
    }
}

/// Terminates the worker of a page that is broken.
pub fn abandon() {
    if let Some(worker) = LIVING.take() {
        worker.terminate();
    }
}
