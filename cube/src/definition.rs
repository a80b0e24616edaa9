//! A kernel on its way from Rust to CubeCL's representation: its constants, its buffers, its types.

use cubecl_core::ir::metadata::Info;
use cubecl_core::ir::settings::{Dim3, ExecutionMode};
use cubecl_core::ir::{AddressType, ElemType, FloatKind, Scope, UIntKind};
use cubecl_core::prelude::*;
use cubecl_core::{define_scalar, define_size};
use parallax_core::suite::{DType, Recipe, Value};

define_scalar!(pub Real);
define_size!(pub Width);

/// A kernel in the making. Buffers are asked for in the order of the stage's arguments.
pub struct Definition<'a> {
    recipe: &'a Recipe,
    builder: KernelBuilder,
}

impl<'a> Definition<'a> {
    /// Of a kernel whose element type is what [`Real`] means in it. [`Width`] is its constant `WIDTH`, where it has one.
    pub fn new(recipe: &'a Recipe) -> Definition<'a> {
        let [x, y, z] = recipe.workgroup;
        // Indices are checked by the kernels themselves, where they need to be: as in our own texts.
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

    /// From here on [`Real`] is this type.
    fn real_is(&self, elem: ElemType) {
        self.builder.scope.register_type::<Real>(elem);
    }

    /// From here on [`Real`] is words of 32 bits: for what only moves bytes.
    pub fn real_is_words(&self) {
        self.real_is(ElemType::UInt(UIntKind::U32));
    }

    fn width_is(&self, width: usize) {
        self.builder.scope.register_size::<Width>(width);
    }

    fn value(&self, name: &str) -> Option<Value> {
        // As in texts, what is said last holds.
        self.recipe.consts.iter().rev().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    fn expect(&self, name: &str) -> Value {
        self.value(name).unwrap_or_else(|| panic!("{} has no constant {name}", self.recipe.name))
    }

    /// A constant of the stage.
    ///
    /// # Panics
    /// Like all that follow, where the stage has no such constant: a mistake in the workload.
    pub fn size(&self, name: &str) -> usize {
        self.word(name) as usize
    }

    /// The same as a word of 32 bits.
    pub fn word(&self, name: &str) -> u32 {
        match self.expect(name) {
            Value::U32(value) => value,
            other => panic!("{name} is {other:?}, not a number of things"),
        }
    }

    /// The same as a fraction.
    pub fn fraction(&self, name: &str) -> f32 {
        match self.expect(name) {
            Value::F32(value) => value,
            other => panic!("{name} is {other:?}, not a fraction"),
        }
    }

    /// The same as a truth value.
    pub fn truth(&self, name: &str) -> bool {
        match self.expect(name) {
            Value::Bool(value) => value,
            other => panic!("{name} is {other:?}, not a truth value"),
        }
    }

    /// Threads of a workgroup.
    pub fn units(&self) -> u32 {
        self.recipe.workgroup.iter().product()
    }

    /// The next buffer, as elements of this type.
    pub fn buffer<C: CubePrimitive>(&mut self) -> NativeExpand<[C]> {
        <[C] as LaunchArg>::expand(&BufferCompilationArg { inplace: None }, &mut self.builder)
    }

    /// Where the body goes.
    pub fn scope(&self) -> &Scope {
        &self.builder.scope
    }

    /// The whole. Every extent is a constant, so that no kernel asks for the lengths that CubeCL's own launches pass along.
    pub fn finish(self) -> KernelDefinition {
        KernelDefinition { info: Info::default(), ..self.builder.build() }
    }
}
