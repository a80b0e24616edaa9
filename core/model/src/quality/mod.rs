//! Measures of quality: classes, rankings, entities, and intervals of them.

mod auc;
mod bootstrap;
mod classes;
mod entities;

pub use auc::{auc, auc_macro, auc_micro};
pub use bootstrap::bootstrap;
pub use classes::{Confusion, Rates};
pub use entities::{Counts, Entity, EntityScores, Match, entities_of_tags};

/// Error of a measure's input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QualityError {
    /// No items.
    #[error("there are no items")]
    Empty,
    /// Two lists of different lengths.
    #[error("there are {truth} true labels and {predicted} predictions")]
    Lengths {
        /// Number of true labels.
        truth: usize,
        /// Number of predictions.
        predicted: usize,
    },
    /// Class beyond the number of classes.
    #[error("item {item} has class {class}, and there are {classes} classes")]
    Class {
        /// Position of the item, from zero.
        item: usize,
        /// Its class.
        class: usize,
        /// Number of classes.
        classes: usize,
    },
    /// Score that is not a number.
    #[error("item {0} has a score that is not a number")]
    NotANumber(usize),
    /// Area under the curve of a class that no item has, or that every item has.
    #[error("class {0} has no item, or every item: it has no area under a curve")]
    OneClass(usize),
    /// Tag that is neither `O` nor `B-TYPE` nor `I-TYPE`.
    #[error("tag {index} is `{tag}`: write O, B-TYPE or I-TYPE")]
    Tag {
        /// Position in the sequence, from zero.
        index: usize,
        /// The tag.
        tag: String,
    },
}
