//! Client of the collector: `parallax serve` hosts this page and keeps the results sent to it.

use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{RequestInit, Response};

use crate::environment::{of_this_tab, sleep, window};

/// Path that finished runs are posted to.
const RUNS: &str = "/api/runs";
/// Storage key of the token in this tab. Copied addresses must not contain the token.
const REMEMBERED: &str = "parallax-desk";

/// A collector, by the token of its address.
pub struct Collector {
    token: String,
}

impl Collector {
    /// Returns the collector of this address, or of an earlier address in this tab.
    pub fn of(named: Option<String>) -> Option<Collector> {
        if let Some(token) = &named {
            of_this_tab(|kept| kept.set_item(REMEMBERED, token));
        }
        let token = named.or_else(|| of_this_tab(|kept| kept.get_item(REMEMBERED)).flatten())?;
        Some(Collector { token })
    }

    /// Link to the collector's overview.
    pub fn link(&self) -> String {
        format!("/desk/?desk={}", self.token)
    }

    /// Sends a run, and retries at the collector's request. `waits` receives the seconds until a retry. Returns the beginning of a
    /// sentence about the result.
    ///
    /// # Errors
    /// A sentence about the failure.
    pub async fn send(&self, run: &str, waits: impl Fn(u64)) -> Result<String, String> {
        for last in (0..TRIES).map(|tried| tried + 1 == TRIES) {
            match self.post(run).await {
                Ok(Answer { wait: Some(seconds), .. }) if !last => {
                    waits(seconds);
                    sleep((seconds * 1000) as i32).await;
                }
                Ok(Answer { status: 201, text, .. }) => return Ok(format!("Kept as {text}")),
                Ok(Answer { status: 200, .. }) => return Ok("The collector has this result already".to_owned()),
                Ok(Answer { text, .. }) => return Err(format!("Not sent. {text}")),
                Err(_) => break,
            }
        }
        Err("The collector does not answer. Is `parallax serve` still running? Send again, or download.".to_owned())
    }

    async fn post(&self, run: &str) -> Result<Answer, JsValue> {
        let init = RequestInit::new();
        init.set_method("POST");
        init.set_body(&run.into());
        let headers = web_sys::Headers::new()?;
        headers.set("x-parallax-token", &self.token)?;
        init.set_headers(&headers);
        let response: Response = JsFuture::from(window().fetch_with_str_and_init(RUNS, &init)).await?.dyn_into()?;
        let text = JsFuture::from(response.text()?).await?.as_string().unwrap_or_default();
        let status = response.status();
        Ok(Answer { status, wait: wait(status, response.headers().get("retry-after")?), text })
    }
}

/// Response of a collector to a run.
struct Answer {
    status: u16,
    text: String,
    /// Seconds until a retry, if the collector requests one.
    wait: Option<u64>,
}

/// Maximum number of attempts.
const TRIES: usize = 5;
/// Longest delay before a retry, in seconds.
const LONGEST: u64 = 120;

/// Seconds until a retry, from the status and `Retry-After`; `None` if the response is final.
fn wait(status: u16, after: Option<String>) -> Option<u64> {
    let seconds = after?.trim().parse().ok()?;
    (matches!(status, 429 | 503) && seconds <= LONGEST).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_sent_again_where_the_collector_says_when() {
        for (status, after, seconds) in [
            (429, Some("12"), Some(12)),
            (503, Some("5"), Some(5)),
            (429, None, None),
            (429, Some("121"), None),
            (503, Some("Fri, 27 Nov 2026 08:00:00 GMT"), None),
            (400, Some("5"), None),
            (201, Some("5"), None),
        ] {
            assert_eq!(wait(status, after.map(str::to_owned)), seconds, "{status} {after:?}");
        }
    }
}
