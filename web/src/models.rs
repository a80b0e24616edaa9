//! Message about a model of the user, from the program that reads files to the page.

use parallax_schema::record::Model;
use serde::{Deserialize, Serialize};

/// Model of a file. It is tagged and read like an event: one reader of both halves the size of the page's code for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "word")]
pub enum FoundModel {
    /// The model.
    Model(Model),
}
