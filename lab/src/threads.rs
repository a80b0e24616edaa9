//! Threads for the code of the processor: workers of the worker, which run this program on the same memory.
//!
//! That takes a program compiled for it and an isolated page. Any other has the one thread that it runs on.

use std::sync::{Condvar, Mutex};

use futures_channel::mpsc::unbounded;
use js_sys::{Object, Reflect};
use rayon::{ThreadBuilder, ThreadPoolBuilder};
use wasm_bindgen::prelude::*;
use web_sys::{DedicatedWorkerGlobalScope, Worker, WorkerOptions, WorkerType};

use crate::SCRIPT;

#[wasm_bindgen]
extern "C" {
    /// Address of the script that goes with this program.
    #[wasm_bindgen(thread_local_v2, js_namespace = ["import", "meta"], js_name = url)]
    static GLUE: String;
}

/// Threads that no worker has become yet. rayon waits for all of them without giving the browser its turn, so the workers
/// are there before.
static WAITING: Mutex<Vec<ThreadBuilder>> = Mutex::new(Vec::new());
static MORE: Condvar = Condvar::new();

/// Begin so many, which whatever is parallel then uses. The worker's script calls it before anything is measured, so that a page whose
/// browser does not start them hears nothing, and does without.
#[wasm_bindgen]
pub async fn begin(threads: u32) -> Result<(), JsValue> {
    start(threads).await?;
    let wait = |thread| {
        WAITING.lock().expect("nobody panics with it").push(thread);
        MORE.notify_one();
        Ok(())
    };
    let pool = ThreadPoolBuilder::new().num_threads(threads as usize).spawn_handler(wait);
    pool.build_global().map_err(|why| format!("the threads did not begin: {why}").into())
}

/// Start the workers and hear of each that it is ready. All load at once, but become threads one after the other: of two that set up their
/// part of the memory at the same moment, one was seen to stop, once in a hundred visits.
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
        // It lives as long as the worker that began it, and some browsers end one that nothing refers to.
        std::mem::forget(worker);
        ready.recv().await.map_err(|_| JsValue::from("they say nothing"))?;
    }
    on_message.forget();
    Ok(())
}

/// Be a thread, to the end of the worker. The worker's script calls it.
#[wasm_bindgen]
pub fn compute() {
    let scope = js_sys::global().unchecked_into::<DedicatedWorkerGlobalScope>();
    scope.post_message(&JsValue::NULL).expect("nothing can always be posted");
    let mut waiting = WAITING.lock().expect("nobody panics with it");
    let thread = loop {
        match waiting.pop() {
            Some(thread) => break thread,
            None => waiting = MORE.wait(waiting).expect("nobody panics with it"),
        }
    };
    drop(waiting);
    thread.run();
}
