//! Matrix shapes that the matrix units of a device multiply for kernels in WGSL.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// One way in which threads together multiply matrices and add to the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixShape {
    /// Elements of the factors.
    pub factors: MatrixElement,
    /// Elements of the addend, and of the result.
    pub sums: MatrixElement,
    /// Rows of the left factor and of the result.
    pub m: u32,
    /// Columns of the right factor and of the result.
    pub n: u32,
    /// Columns of the left factor, rows of the right one.
    pub k: u32,
    /// The threads that hold a matrix together.
    pub scope: MatrixScope,
}

/// An element of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "named as in WGSL")]
pub enum MatrixElement {
    F16,
    F32,
    I8,
    U8,
    I32,
    U32,
}

/// Threads that hold a matrix together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MatrixScope {
    /// Those of a subgroup.
    Subgroup,
}

impl MatrixShape {
    /// Shape that the kernels of this suite use: 16×16×16 of f16, summed in f32.
    pub const F16_IN_F32: MatrixShape = MatrixShape {
        factors: MatrixElement::F16,
        sums: MatrixElement::F32,
        m: 16,
        n: 16,
        k: 16,
        scope: MatrixScope::Subgroup,
    };

    /// Shape for signed bytes: 16×16×32, summed in 32 bits.
    pub const I8_IN_I32: MatrixShape =
        MatrixShape { factors: MatrixElement::I8, sums: MatrixElement::I32, k: 32, ..MatrixShape::F16_IN_F32 };
}

/// Deserializes a list. Older recordings have a Boolean for [`MatrixShape::F16_IN_F32`] instead, and name no other shape.
pub(super) fn listed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MatrixShape>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Told {
        Listed(Vec<MatrixShape>),
        Kernels(bool),
    }
    Ok(match Told::deserialize(deserializer)? {
        Told::Listed(list) => list,
        Told::Kernels(present) => present.then_some(MatrixShape::F16_IN_F32).into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Caps;
    use crate::testing;

    #[test]
    fn one_shape_among_others_serves_the_kernels() {
        let wide = MatrixShape { n: 8, ..MatrixShape::F16_IN_F32 };
        let narrow = MatrixShape { sums: MatrixElement::F16, ..MatrixShape::F16_IN_F32 };
        let caps = |matrices: &[MatrixShape]| Caps { matrices: matrices.to_vec(), ..testing::caps() };
        assert!(!caps(&[]).coop_matrix() && !caps(&[wide, narrow]).coop_matrix());
        assert!(caps(&[wide, MatrixShape::F16_IN_F32, narrow]).coop_matrix());
    }

    #[test]
    fn the_list_is_recorded_and_the_word_of_older_recordings_is_read() {
        let caps = Caps { matrices: vec![MatrixShape { k: 8, ..MatrixShape::F16_IN_F32 }], ..testing::caps() };
        let text = serde_json::to_string(&caps).expect("plain");
        assert!(text.contains(r#""matrices":[{"factors":"f16","sums":"f32","m":16,"n":16,"k":8,"scope":"subgroup"}]"#));
        assert_eq!(serde_json::from_str::<Caps>(&text).expect("its own"), caps);
        let older = |word: &str| {
            let mut value = serde_json::to_value(testing::caps()).expect("plain");
            value["coop_matrix"] = serde_json::from_str(word).expect("a word");
            serde_json::from_value::<Caps>(value).map(|caps| caps.matrices)
        };
        assert_eq!(older("true").expect("a word"), [MatrixShape::F16_IN_F32]);
        assert_eq!(older("false").expect("a word"), []);
        assert!(older("7").is_err());
    }
}
