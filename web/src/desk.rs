//! The desk: `parallax serve`, where this page came from, keeps the results that are sent to it.

use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{RequestInit, Response};

use crate::environment::{of_this_tab, window};

/// Where finished runs are posted.
const RUNS: &str = "/api/runs";
/// What the tab remembers the token under, because addresses that are copied must not have it.
const REMEMBERED: &str = "parallax-desk";

/// The server that takes results from whoever was given its address.
pub struct Desk {
    token: String,
}

impl Desk {
    /// The one that the address named, or the one that an earlier address named in this tab.
    pub fn of(named: Option<String>) -> Option<Desk> {
        if let Some(token) = &named {
            of_this_tab(|kept| kept.set_item(REMEMBERED, token));
        }
        let token = named.or_else(|| of_this_tab(|kept| kept.get_item(REMEMBERED)).flatten())?;
        Some(Desk { token })
    }

    /// Where it shows what it has.
    pub fn link(&self) -> String {
        format!("/desk/?desk={}", self.token)
    }

    /// Send a run. What came of it, as a sentence's beginning, or a sentence about what went wrong.
    pub async fn send(&self, run: &str) -> Result<String, String> {
        match self.post(run).await {
            Ok((201, name)) => Ok(format!("Kept as {name}")),
            Ok((200, _)) => Ok("The desk has this result already".to_owned()),
            Ok((_, why)) => Err(format!("Not sent. {why}")),
            Err(_) => {
                Err("The desk does not answer. Is `parallax serve` still running? Send again, or download.".to_owned())
            }
        }
    }

    async fn post(&self, run: &str) -> Result<(u16, String), JsValue> {
        let init = RequestInit::new();
        init.set_method("POST");
        init.set_body(&run.into());
        let headers = web_sys::Headers::new()?;
        headers.set("x-parallax-token", &self.token)?;
        init.set_headers(&headers);
        let response: Response = JsFuture::from(window().fetch_with_str_and_init(RUNS, &init)).await?.dyn_into()?;
        let text = JsFuture::from(response.text()?).await?.as_string().unwrap_or_default();
        Ok((response.status(), text))
    }
}
