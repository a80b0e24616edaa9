//! Model of the user: from a file to the problems of the plan, and from a run to the times of its operations.

use std::rc::Rc;

use parallax_schema::record::Model;
use parallax_schema::spec::Spec;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

use super::App;
use crate::models::FoundModel;
use crate::reports;
use crate::view::Tone;

impl App {
    /// Connects the file input and the drop of a file. The program that reads files takes the first one, and returns its model.
    pub(super) fn listen_to_models(self: &Rc<Self>) {
        let app = self.clone();
        let found = Closure::<dyn Fn(String) -> bool>::new(move |model: String| app.plan_model(&model)).into_js_value();
        let app = self.clone();
        self.view.on_files("model-file", move |files| {
            let Some(file) = files.into_iter().next() else { return };
            if app.running.get() {
                return app.view.notice("model", Tone::Warn, "A run is under way.", "Drop the model after its end.");
            }
            let dtypes = app.bench.borrow().as_ref().map(|bench| bench.device.caps.dtypes.clone()).unwrap_or_default();
            spawn_local(reports::take_model(file, dtypes, found.clone()));
        });
    }

    /// Plans the problems of a model; no model ends the plan. Returns whether no run is under way.
    fn plan_model(self: &Rc<Self>, model: &str) -> bool {
        if self.running.get() {
            return false;
        }
        let found = serde_json::from_str(model).ok();
        let Some(FoundModel::Model(model)) = found else {
            self.give_up_the_plan();
            self.view.allow_run(false);
            return true;
        };
        let problem = model.problems().into_iter().map(str::to_owned).collect();
        let spec = Spec { problem, case: Vec::new(), ..self.spec.borrow().clone() };
        *self.model.borrow_mut() = Some(model);
        self.set_spec(spec);
        let app = self.clone();
        spawn_local(async move {
            // The page shows an empty plan and disables the Run button.
            let _ = app.make_plan().await;
        });
        true
    }

    /// Returns the model of a spec; `None` if the spec has other problems.
    pub(super) fn model_of(&self, spec: &Spec) -> Option<Model> {
        let model = self.model.borrow();
        model.clone().filter(|model| spec.case.is_empty() && model.problems().iter().eq(&spec.problem))
    }

    /// Shows the times of the displayed run's model.
    pub(super) async fn show_model_time(self: Rc<Self>) {
        let Some(run) = self.run.borrow().clone().filter(|run| run.model.is_some()) else { return };
        let made = reports::model_time(&run).await;
        // Another run may have begun meanwhile.
        if self.running.get() || self.run.borrow().as_ref().is_none_or(|now| now.started != run.started) {
            return;
        }
        match made {
            Ok(times) => self.view.model_time(&times),
            Err(why) => self.view.share_line(&why),
        }
    }
}
