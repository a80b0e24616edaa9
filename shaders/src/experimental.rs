//! Browser features behind flags, which `wgpu` does not support: their request and the browser's response.
//!
//! In a page, `wgpu` calls the browser's own function to request a device. A function in front of it (`ask.js`) extends the
//! request. This module reads the response, and treats it as untrusted input.

use parallax_schema::device::{Caps, MatrixElement, MatrixScope, MatrixShape};
use serde::Deserialize;

use crate::matrix::MATRICES;

/// WebGPU's name of subgroup operations.
const SUBGROUPS: &str = "subgroups";

/// Features requested where the adapter has them. The last is the name for matrices in WebGPU's draft. Its presence is recorded; no
/// kernel uses its syntax yet.
pub const WANTED: [&str; 4] = [SUBGROUPS, "subgroup-size-control", MATRICES, "subgroup-matrix"];

/// Response of a browser.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Elements of [`WANTED`] that the device has.
    granted: Vec<String>,
    subgroup_min_size: Option<u32>,
    subgroup_max_size: Option<u32>,
    matrices: Vec<Told>,
}

/// A matrix shape in the browser's format.
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
    /// Converts the shape. `None` for other element types.
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
    /// Parses the response of `ask.js`. Invalid JSON grants no features.
    pub fn read(text: &str) -> Answer {
        serde_json::from_str(text).unwrap_or_else(|why| {
            log::warn!("the browser's list of experimental features is invalid: {why}");
            Answer::default()
        })
    }

    fn has(&self, feature: &str) -> bool {
        self.granted.iter().any(|granted| granted == feature)
    }

    /// Adds the granted features to the device's capabilities.
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
    use parallax_schema::testing::caps;

    /// Response of Chromium on a GPU with tensor cores.
    const WITH_MATRICES: &str = r#"{"granted":["subgroups","subgroup-size-control","chromium-experimental-subgroup-matrix"],
        "subgroupMinSize":32,"subgroupMaxSize":32,"matrices":[
        {"componentType":"f16","resultComponentType":"f32","M":16,"N":16,"K":16},
        {"componentType":"u8","resultComponentType":"u32","M":16,"N":8,"K":32},
        {"componentType":"f8","resultComponentType":"f32","M":16,"N":16,"K":16}]}"#;

    fn read(text: &str) -> (Caps, Vec<String>) {
        let (mut caps, mut features) = (caps(), vec!["shader-f16".to_owned()]);
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
            assert_eq!(read(text), (caps(), vec!["shader-f16".to_owned()]), "{text}");
        }
        let (caps, _) = read(r#"{"granted":["subgroups"],"subgroupMinSize":64,"subgroupMaxSize":4,"matrices":[]}"#);
        assert_eq!(caps.subgroup, None, "no such sizes");
    }
}
