//! Pipeline-overridable constants of a kernel source, and the values of a request for them.

use naga::{Expression, Literal, Module, ScalarKind, TypeInner};
use serde::Serialize;

use crate::error::{LabError, Label};
use crate::layout::type_name;
use crate::request::Side;

/// A pipeline-overridable constant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Override {
    /// Its number if it has one, else its name.
    pub key: String,
    /// Name in the kernel source.
    pub name: String,
    /// Type in WGSL.
    pub type_name: String,
    /// Value of the kernel source: a number, `computed`, or `None` without one.
    pub default: Option<String>,
    /// Value of the request.
    pub value: Option<f64>,
}

/// Returns the constants of a module with the values of a request.
///
/// # Errors
/// A value for a constant that the module lacks, or one outside the constant's type.
pub(crate) fn of(label: Label, module: &Module, side: &Side) -> Result<Vec<Override>, LabError> {
    let own = |constant: &naga::Override| {
        let name = constant.name.clone().unwrap_or_default();
        let key = constant.id.map_or_else(|| name.clone(), |id| id.to_string());
        let value = side.overrides.get(&key).copied();
        let type_name = type_name(module, constant.ty);
        if let Some(value) = value.filter(|value| !fits(&module.types[constant.ty].inner, *value)) {
            return Err(LabError::OverrideValue { label, name: key, value, type_name });
        }
        let default = constant.init.map(|init| written(&module.global_expressions[init]));
        Ok(Override { key, name, type_name, default, value })
    };
    let found = module.overrides.iter().map(|(_, constant)| own(constant)).collect::<Result<Vec<_>, _>>()?;
    match side.overrides.keys().find(|key| found.iter().all(|one| one.key != **key)) {
        None => Ok(found),
        Some(key) => {
            let keys: Vec<&str> = found.iter().map(|one| one.key.as_str()).collect();
            let has = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
            Err(LabError::NoOverride { label, name: key.clone(), has })
        }
    }
}

/// Whether a value has a counterpart in a type. Integers and booleans are never rounded.
fn fits(inner: &TypeInner, value: f64) -> bool {
    let TypeInner::Scalar(scalar) = inner else { return false };
    let whole = value.fract() == 0.0;
    match scalar.kind {
        ScalarKind::Bool => value == 0.0 || value == 1.0,
        ScalarKind::Sint => whole && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value),
        ScalarKind::Uint => whole && (0.0..=f64::from(u32::MAX)).contains(&value),
        _ if scalar.width == 2 => value.abs() <= f64::from(half::f16::MAX),
        _ => value.abs() <= f64::from(f32::MAX),
    }
}

/// Returns the value of an initializer, or `computed` for one beyond a literal.
fn written(expression: &Expression) -> String {
    match expression {
        Expression::Literal(Literal::F32(value)) => value.to_string(),
        Expression::Literal(Literal::F16(value)) => value.to_string(),
        Expression::Literal(Literal::U32(value)) => value.to_string(),
        Expression::Literal(Literal::I32(value)) => value.to_string(),
        Expression::Literal(Literal::Bool(value)) => value.to_string(),
        _ => "computed".to_owned(),
    }
}
