//! Threads for the code of the processor: workers of the worker, which run this program on the same memory.
//!
//! That takes a program compiled for it and an isolated page. Any other has the one thread that it runs on.

/// How many the machine has, as far as the browser says.
pub fn most() -> u32 {
    let known = js_sys::Reflect::get(&js_sys::global(), &"navigator".into())
        .and_then(|navigator| js_sys::Reflect::get(&navigator, &"hardwareConcurrency".into()));
    known.ok().and_then(|threads| threads.as_f64()).map_or(1, |threads| threads as u32).max(1)
}

#[cfg(not(target_feature = "atomics"))]
pub use alone::*;
#[cfg(target_feature = "atomics")]
pub use together::*;

#[cfg(not(target_feature = "atomics"))]
mod alone {
    /// There is nothing to begin.
    pub async fn begin(_threads: u32) -> Result<(), String> {
        Ok(())
    }

    /// Whether this program runs as a thread of another.
    pub fn is_one() -> bool {
        false
    }
}

#[cfg(target_feature = "atomics")]
mod together {
    use std::sync::{Condvar, Mutex};

    use futures_channel::mpsc::unbounded;
    use js_sys::{Object, Reflect};
    use rayon::{ThreadBuilder, ThreadPoolBuilder};
    use wasm_bindgen::prelude::*;
    use web_sys::{DedicatedWorkerGlobalScope, Worker, WorkerOptions, WorkerType};

    use crate::measuring::beside::{GLUE, SCRIPT};

    /// How such a worker is called.
    const NAME: &str = "thread";
    /// Threads that no worker has become yet. rayon waits for all of them without giving the browser its turn, so the workers
    /// are there before.
    static WAITING: Mutex<Vec<ThreadBuilder>> = Mutex::new(Vec::new());
    static MORE: Condvar = Condvar::new();

    /// Begin so many, which whatever is parallel then uses.
    pub async fn begin(threads: u32) -> Result<(), String> {
        let started = start(threads).await.map_err(|why| format!("no worker can be had for a thread: {why:?}"));
        started?;
        let wait = |thread| {
            WAITING.lock().expect("nobody panics with it").push(thread);
            MORE.notify_one();
            Ok(())
        };
        let pool = ThreadPoolBuilder::new().num_threads(threads as usize).spawn_handler(wait);
        pool.build_global().map_err(|why| format!("the threads did not begin: {why}"))
    }

    /// Start the workers and hear of each that it is ready.
    async fn start(threads: u32) -> Result<(), JsValue> {
        let (sender, mut ready) = unbounded();
        let on_message = Closure::<dyn FnMut()>::new(move || drop(sender.unbounded_send(())));
        let options = WorkerOptions::new();
        options.set_type(WorkerType::Module);
        options.set_name(NAME);
        for _ in 0..threads {
            let worker = Worker::new_with_options(SCRIPT, &options)?;
            worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
            let first = Object::new();
            Reflect::set(&first, &"glue".into(), &GLUE.with(|glue| JsValue::from(glue.as_str())))?;
            Reflect::set(&first, &"program".into(), &wasm_bindgen::module())?;
            Reflect::set(&first, &"memory".into(), &wasm_bindgen::memory())?;
            worker.post_message(&first)?;
            // It lives as long as the worker that began it, and some browsers end one that nothing refers to.
            std::mem::forget(worker);
        }
        for _ in 0..threads {
            ready.recv().await.map_err(|_| JsValue::from("they say nothing"))?;
        }
        on_message.forget();
        Ok(())
    }

    /// Whether this program runs as a thread of another.
    pub fn is_one() -> bool {
        js_sys::global().dyn_into::<DedicatedWorkerGlobalScope>().is_ok_and(|scope| scope.name() == NAME)
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
}
