//! Threads for code on the processor: nested workers that run this program on the same memory.
//!
//! They require a program compiled for shared memory and an isolated page. Otherwise the program has the one thread that it runs
//! on.

use std::sync::{Condvar, Mutex};

use futures_channel::mpsc::unbounded;
use js_sys::{Object, Reflect};
use rayon::{ThreadBuilder, ThreadPoolBuilder};
use wasm_bindgen::prelude::*;
use web_sys::{DedicatedWorkerGlobalScope, Worker, WorkerOptions, WorkerType};

use parallax_protocol::SCRIPT;

#[wasm_bindgen]
extern "C" {
    /// Address of this program's JavaScript glue.
    #[wasm_bindgen(thread_local_v2, js_namespace = ["import", "meta"], js_name = url)]
    static GLUE: String;
}

/// Threads without a worker. rayon waits for all of them without yielding to the browser, so the workers start first.
static WAITING: Mutex<Vec<ThreadBuilder>> = Mutex::new(Vec::new());
static MORE: Condvar = Condvar::new();

/// Starts the given number of threads for parallel code. The worker's script calls it before any measurement. A page whose browser
/// does not start them gets no message and runs without them.
#[wasm_bindgen]
pub async fn begin(threads: u32) -> Result<(), JsValue> {
    start(threads).await?;
    let wait = |thread| {
        WAITING.lock().expect("no thread panics with it").push(thread);
        MORE.notify_one();
        Ok(())
    };
    let pool = ThreadPoolBuilder::new().num_threads(threads as usize).spawn_handler(wait);
    pool.build_global().map_err(|why| format!("the threads did not begin: {why}").into())
}

/// Starts the workers and waits until each is ready. All load at once, but become threads one after the other. Of two that set up
/// their memory at the same moment, one was seen to stop, once in a hundred visits.
async fn start(threads: u32) -> Result<(), JsValue> {
    let (sender, mut ready) = unbounded();
    let on_message = Closure::<dyn FnMut()>::new(move || drop(sender.unbounded_send(())));
    let options = WorkerOptions::new();
    options.set_type(WorkerType::Module);
    let workers: Result<Vec<Worker>, JsValue> =
        (0..threads).map(|_| Worker::new_with_options(SCRIPT, &options)).collect();
    for worker in workers? {
        worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        let first = Object::new();
        Reflect::set(&first, &"glue".into(), &GLUE.with(|glue| JsValue::from(glue.as_str())))?;
        Reflect::set(&first, &"program".into(), &wasm_bindgen::module())?;
        Reflect::set(&first, &"memory".into(), &wasm_bindgen::memory())?;
        worker.post_message(&first)?;
        // The worker lives as long as its parent. Some browsers end a worker without references.
        std::mem::forget(worker);
        ready.recv().await.map_err(|_| JsValue::from("they say nothing"))?;
    }
    on_message.forget();
    Ok(())
}

/// Runs as a thread until the worker ends. The worker's script calls it.
#[wasm_bindgen]
pub fn compute() {
    let scope = js_sys::global().unchecked_into::<DedicatedWorkerGlobalScope>();
    scope.post_message(&JsValue::NULL).expect("nothing can always be posted");
    let mut waiting = WAITING.lock().expect("no thread panics with it");
    let thread = loop {
        match waiting.pop() {
            Some(thread) => break thread,
            None => waiting = MORE.wait(waiting).expect("no thread panics with it"),
        }
    };
    drop(waiting);
    thread.run();
}
