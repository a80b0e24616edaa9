//! Definition of a kernel on its way from Rust to CubeCL's representation: constants, buffers, types.

use cubecl_core::ir::metadata::Info;
use cubecl_core::ir::settings::{Dim3, ExecutionMode};
use cubecl_core::ir::{AddressType, ElemType, FloatKind, Scope, UIntKind};
use cubecl_core::prelude::*;
use cubecl_core::{define_scalar, define_size};
use parallax_ir::{Recipe, Value};
use parallax_schema::case::DType;

define_scalar!(pub Real);
define_size!(pub Width);

/// A kernel in construction. Buffers are requested in the order of the stage's arguments.
pub struct Definition<'a> {
    recipe: &'a Recipe,
    builder: KernelBuilder,
}

impl<'a> Definition<'a> {
    /// Returns the definition of a kernel. [`Real`] is its element type. [`Width`] is its constant `WIDTH`, if present.
    pub fn new(recipe: &'a Recipe) -> Definition<'a> {
        let [x, y, z] = recipe.workgroup;
        // Kernels check their own indices where needed, like our own kernel sources.
        let settings = KernelSettings::new(Dim3 { x, y, z }, ExecutionMode::Unchecked, AddressType::U32);
        let definition = Definition { recipe, builder: KernelBuilder::new(settings.kernel_name(&recipe.name)) };
        definition.real_is(match recipe.elem {
            DType::F32 => ElemType::Float(FloatKind::F32),
            DType::F16 => ElemType::Float(FloatKind::F16),
            DType::BF16 => ElemType::Float(FloatKind::BF16),
        });
        definition.width_is(definition.value("WIDTH").map_or(1, |_| definition.size("WIDTH")));
        definition
    }

    /// Sets the type of [`Real`] for the code that follows.
    fn real_is(&self, elem: ElemType) {
        self.builder.scope.register_type::<Real>(elem);
    }

    /// Sets [`Real`] to 32-bit words, for kernels that only move bytes.
    pub fn real_is_words(&self) {
        self.real_is(ElemType::UInt(UIntKind::U32));
    }

    fn width_is(&self, width: usize) {
        self.builder.scope.register_size::<Width>(width);
    }

    fn value(&self, name: &str) -> Option<Value> {
        // As in kernel sources, the last definition of a constant holds.
        self.recipe.consts.iter().rev().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    fn expect(&self, name: &str) -> Value {
        self.value(name).unwrap_or_else(|| panic!("{} has no constant {name}", self.recipe.name))
    }

    /// Returns a constant of the stage.
    ///
    /// # Panics
    /// A constant that the stage lacks: a mistake in the workload. The same holds for all methods that follow.
    pub fn size(&self, name: &str) -> usize {
        self.word(name) as usize
    }

    /// Returns a constant as a 32-bit word.
    pub fn word(&self, name: &str) -> u32 {
        match self.expect(name) {
            Value::U32(value) => value,
            other => panic!("{name} is {other:?}, not a count"),
        }
    }

    /// Returns a constant as a fraction.
    pub fn fraction(&self, name: &str) -> f32 {
        match self.expect(name) {
            Value::F32(value) => value,
            other => panic!("{name} is {other:?}, not a fraction"),
        }
    }

    /// Returns a constant as a truth value.
    pub fn truth(&self, name: &str) -> bool {
        match self.expect(name) {
            Value::Bool(value) => value,
            other => panic!("{name} is {other:?}, not a truth value"),
        }
    }

    /// Number of threads of a workgroup.
    pub fn units(&self) -> u32 {
        self.recipe.workgroup.iter().product()
    }

    /// Returns the next buffer, with elements of type `C`.
    pub fn buffer<C: CubePrimitive>(&mut self) -> NativeExpand<[C]> {
        <[C] as LaunchArg>::expand(&BufferCompilationArg { inplace: None }, &mut self.builder)
    }

    /// Returns the scope of the kernel's body.
    pub fn scope(&self) -> &Scope {
        &self.builder.scope
    }

    /// Returns the finished kernel. Every extent is a constant, so no kernel reads the lengths that CubeCL's own launches pass
    /// along.
    pub fn finish(self) -> KernelDefinition {
        KernelDefinition { info: Info::default(), ..self.builder.build() }
    }
}
