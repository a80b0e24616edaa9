//! What a browser offers behind flags, and `wgpu` does not know of: how to ask for it, and what is there.
//!
//! In a page `wgpu` hands its request for a device to the browser's own function, so a function in front of that one can add to
//! what is asked for (`ask.js`). What came of it is read here, and believed no more than any other text.

use parallax_core::suite::{Caps, MatrixElement, MatrixScope, MatrixShape};
use serde::Deserialize;

use crate::matrix::MATRICES;

/// The subgroup's operations, in the words of WebGPU.
const SUBGROUPS: &str = "subgroups";

/// What is asked for where the adapter has it. The last is what WebGPU's draft calls matrices; that it was there is recorded, and
/// no kernel is spelled in its words yet.
pub const WANTED: [&str; 4] = [SUBGROUPS, "subgroup-size-control", MATRICES, "subgroup-matrix"];

/// What a browser said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Of [`WANTED`], what the device has.
    granted: Vec<String>,
    subgroup_min_size: Option<u32>,
    subgroup_max_size: Option<u32>,
    matrices: Vec<Told>,
}

/// One of the matrices, in the browser's words.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Told {
    #[serde(rename = "componentType")]
    factors: String,
    #[serde(rename = "resultComponentType")]
    sums: String,
    #[serde(rename = "M")]
    m: u32,
    #[serde(rename = "N")]
    n: u32,
    #[serde(rename = "K")]
    k: u32,
}

impl Told {
    /// The same in our words, where these have its elements.
    fn shape(&self) -> Option<MatrixShape> {
        let [factors, sums] = [&self.factors, &self.sums].map(|name| element(name));
        let Told { m, n, k, .. } = *self;
        Some(MatrixShape { factors: factors?, sums: sums?, m, n, k, scope: MatrixScope::Subgroup })
    }
}

fn element(name: &str) -> Option<MatrixElement> {
    use MatrixElement::{F16, F32, I8, I32, U8, U32};
    let all = [("f16", F16), ("f32", F32), ("i8", I8), ("u8", U8), ("i32", I32), ("u32", U32)];
    all.into_iter().find(|(known, _)| *known == name).map(|(_, element)| element)
}

impl Answer {
    /// Of the text that `ask.js` gives. Nothing was granted where it is none.
    pub fn read(text: &str) -> Answer {
        serde_json::from_str(text).unwrap_or_else(|why| {
            log::warn!("what the browser told of its experimental features is not understood: {why}");
            Answer::default()
        })
    }

    fn has(&self, feature: &str) -> bool {
        self.granted.iter().any(|granted| granted == feature)
    }

    /// Add what the device has to what is known of it.
    pub fn add_to(&self, caps: &mut Caps, features: &mut Vec<String>) {
        features.extend(WANTED.iter().filter(|wanted| self.has(wanted)).map(|&wanted| wanted.to_owned()));
        if self.has(SUBGROUPS) {
            let sizes = self.subgroup_min_size.zip(self.subgroup_max_size);
            caps.subgroup = sizes.filter(|(min, max)| (1..=*max).contains(min));
        }
        if self.has(MATRICES) {
            caps.matrices = self.matrices.iter().filter_map(Told::shape).collect();
            caps.matrix_units = caps.matrices.iter().any(|shape| shape.factors == MatrixElement::F16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_core::testing::mock;

    /// What Chromium says on a card with tensor cores.
    const WITH_MATRICES: &str = r#"{"granted":["subgroups","subgroup-size-control","chromium-experimental-subgroup-matrix"],
        "subgroupMinSize":32,"subgroupMaxSize":32,"matrices":[
        {"componentType":"f16","resultComponentType":"f32","M":16,"N":16,"K":16},
        {"componentType":"u8","resultComponentType":"u32","M":16,"N":8,"K":32},
        {"componentType":"f8","resultComponentType":"f32","M":16,"N":16,"K":16}]}"#;

    fn read(text: &str) -> (Caps, Vec<String>) {
        let (mut caps, mut features) = (mock::caps(), vec!["shader-f16".to_owned()]);
        Answer::read(text).add_to(&mut caps, &mut features);
        (caps, features)
    }

    #[test]
    fn what_was_granted_is_what_the_device_can() {
        let (caps, features) = read(WITH_MATRICES);
        assert_eq!(features, ["shader-f16", SUBGROUPS, "subgroup-size-control", MATRICES]);
        assert_eq!((caps.subgroup, caps.matrix_units, caps.coop_matrix()), (Some((32, 32)), true, true));
        let bytes = MatrixShape {
            factors: MatrixElement::U8,
            sums: MatrixElement::U32,
            n: 8,
            k: 32,
            ..MatrixShape::F16_IN_F32
        };
        assert_eq!(caps.matrices, [MatrixShape::F16_IN_F32, bytes], "an element without a name here is left out");
    }

    #[test]
    fn an_adapter_tells_of_matrices_that_the_device_was_not_granted() {
        let (caps, features) = read(&WITH_MATRICES.replace(r#","chromium-experimental-subgroup-matrix"]"#, "]"));
        assert_eq!(features.len(), 3);
        assert_eq!((caps.subgroup, caps.matrices, caps.matrix_units), (Some((32, 32)), Vec::new(), false));
        let (caps, _) = read(r#"{"granted":[],"subgroupMinSize":4,"subgroupMaxSize":4,"matrices":[]}"#);
        assert_eq!(caps.subgroup, None, "not granted");
    }

    #[test]
    fn what_is_not_understood_grants_nothing() {
        for text in ["", "null", r#"{"granted":7}"#, r#"{"granted":["subgroups"]}"#] {
            assert_eq!(read(text), (mock::caps(), vec!["shader-f16".to_owned()]), "{text}");
        }
        let (caps, _) = read(r#"{"granted":["subgroups"],"subgroupMinSize":64,"subgroupMaxSize":4,"matrices":[]}"#);
        assert_eq!(caps.subgroup, None, "no such sizes");
    }
}
