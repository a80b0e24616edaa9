//! Messages of a page to the program that gave it a job.

use std::collections::BTreeMap;

use parallax_schema::device::{ClockInfo, DeviceInfo};
use parallax_schema::record::Suite;
use serde::{Deserialize, Serialize};

/// Message of a page about its job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum Message {
    /// The device is open.
    Begin {
        /// The device.
        device: Box<DeviceInfo>,
        /// Its clock.
        clock: ClockInfo,
        /// Program of the page.
        suite: Suite,
        /// Facts about the browser.
        environment: BTreeMap<String, String>,
    },
    /// Share of the work that is done, from 0 to 1.
    Progress {
        /// The share.
        share: f64,
    },
    /// The page cannot go on.
    Failed {
        /// The reason.
        reason: String,
    },
}

impl Message {
    /// Returns the message as JSON.
    ///
    /// # Panics
    /// Never: JSON can represent every message.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a message is JSON")
    }

    /// Returns the message of a JSON text.
    ///
    /// # Errors
    /// Text that is no message.
    pub fn from_json(text: &str) -> serde_json::Result<Message> {
        serde_json::from_str(text)
    }
}
