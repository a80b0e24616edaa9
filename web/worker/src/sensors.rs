//! Sensors of a page: the visibility of its tab, and the energy counter that a command line reads for it.

use std::cell::RefCell;
use std::rc::Rc;

use async_trait::async_trait;
use parallax_ir::device::{NO_COUNTER, Profiler, SensorSource};
use parallax_schema::device::{Conditions, EnergyReading};
use parallax_schema::units::Nanos;
use wasm_bindgen::prelude::*;

use crate::sight::Visibility;

#[wasm_bindgen]
extern "C" {
    type Answer;
    #[wasm_bindgen(catch)]
    async fn fetch(path: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    async fn text(this: &Answer) -> Result<JsValue, JsValue>;
}

/// Sensors of a profiler in a page.
pub struct PageSensors {
    /// Visibility of the tab.
    pub sight: Rc<Visibility>,
    /// Path of the page's server with the energy counter, if a command line reads one.
    pub counter: Rc<RefCell<Option<String>>>,
}

#[async_trait(?Send)]
impl SensorSource for PageSensors {
    fn conditions(&mut self, inner: &mut dyn Profiler) -> Conditions {
        Conditions { hidden: self.sight.was_hidden(), ..inner.conditions() }
    }

    async fn energy(&mut self, _: &mut dyn Profiler, after: Nanos) -> Result<EnergyReading, String> {
        let path = self.counter.borrow().clone().ok_or(NO_COUNTER)?;
        let answer = async {
            let answer: Answer = fetch(&format!("{path}?after={}", after.secs())).await?.unchecked_into();
            answer.text().await
        };
        let text = answer.await.ok().and_then(|text| text.as_string()).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_else(|_| Err(NO_COUNTER.to_owned()))
    }
}
