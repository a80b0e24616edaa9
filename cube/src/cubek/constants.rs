//! Launch arguments as constants. CubeCL's launches pass lengths, shapes, strides and scalars in a buffer of their own. Here each
//! is a constant of the kernel, like the extents in our own sources, so the kernel binds its buffers only.

use std::collections::BTreeSet;

use cubecl_core::ir::attributes::IndexAttr;
use cubecl_core::ir::dialect::general::{BufferLenOp, ReadScalarOp, ShapeOp, StrideOp};
use cubecl_core::ir::interfaces::ScalarType;
use cubecl_core::ir::metadata::Info;
use cubecl_core::ir::pliron::attribute::boxed_attr_cast;
use cubecl_core::ir::pliron::builtin::attr_interfaces::TypedAttrInterface;
use cubecl_core::ir::pliron::builtin::ops::{ConstantOp, FuncOp};
use cubecl_core::ir::pliron::irbuild::match_rewrite::apply_match_rewrite;
use cubecl_core::ir::pliron::opts::mem2reg::Mem2RegPass;
use cubecl_core::ir::prelude::*;
use cubecl_core::ir::settings::ExecutionMode;
use cubecl_core::ir::{AddressType, ConstantValue, ElemType, FloatKind, IntKind, UIntKind, ident};
use cubecl_core::prelude::KernelDefinition;
use cubecl_opt::passes::sccp::SCCPPass;
use cubecl_opt::passes::sroa::SROAPass;

/// Returns a kernel with its launch arguments as constants, under another name.
///
/// # Errors
/// An argument that is known only at run time, or that has no constant here.
pub fn put_into(
    definition: KernelDefinition,
    words: &[u64],
    name: &str,
) -> std::result::Result<KernelDefinition, String> {
    let KernelDefinition { body, info, settings } = definition;
    if (settings.address_type, settings.execution_mode) != (AddressType::U32, ExecutionMode::Unchecked) {
        // The compilers would insert checks, which read lengths again.
        return Err(format!("it is launched with {} and {:?}", settings.address_type, settings.execution_mode));
    }
    let entry = body.state().entry_func;
    let ctx = body.ctx_mut();
    entry.set_symbol_name(ctx, ident(name));
    let mut passed = Passed { bytes: words.iter().flat_map(|word| word.to_le_bytes()).collect(), info };
    let function = entry.get_operation();
    // The axis of a query must also become a constant. It may be an argument, a counter, or kept in a variable.
    for _ in 0..ROUNDS {
        apply_match_rewrite(ctx, &mut passed, Default::default(), function).map_err(|why| why.to_string())?;
        let mut folding = OpPass::<FuncOp, Passes>::default();
        folding.add_pass(SROAPass);
        folding.add_pass(Mem2RegPass);
        folding.add_pass(SCCPPass);
        folding.run(function, ctx, &mut AnalysisManager::default()).map_err(|why| why.to_string())?;
    }
    let mut left = BTreeSet::new();
    visit_all_ops_of_type::<ShapeOp, _>(ctx, &mut left, function, |_, left, _| _ = left.insert("an extent"));
    visit_all_ops_of_type::<StrideOp, _>(ctx, &mut left, function, |_, left, _| _ = left.insert("a stride"));
    visit_all_ops_of_type::<ReadScalarOp, _>(ctx, &mut left, function, |_, left, _| _ = left.insert("a scalar"));
    if !left.is_empty() {
        return Err(format!("it asks for {left:?} in a way that has no constant"));
    }
    Ok(KernelDefinition { body, info: Info::default(), settings: settings.kernel_name(name) })
}

/// Number of folding rounds: launch arguments, an axis computed from them, a query of that axis.
const ROUNDS: usize = 3;

/// Launch arguments, in the layout of the launch.
struct Passed {
    bytes: Vec<u8>,
    info: Info,
}

/// Bytes of a length, an extent or a stride, with 32-bit addresses.
const WORD: usize = 4;

impl Passed {
    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + WORD].try_into().expect("four bytes"))
    }

    fn fixed(&self, index: usize) -> usize {
        let field = self.info.sized_meta.expect("a kernel reads a length");
        self.word(field.offset + WORD * index) as usize
    }

    /// Returns an extent or a stride of a tensor. The word at `first` locates the first one.
    fn of_axis(&self, first: usize, axis: usize) -> usize {
        self.word(self.info.dynamic_meta_offset + WORD * (self.fixed(first) + axis)) as usize
    }

    /// Returns a scalar of 32 bits; `None` for other types.
    fn scalar(&self, elem: ElemType, id: usize) -> Option<ConstantValue> {
        let field = self.info.scalars.iter().find(|field| field.ty == elem)?;
        let word = self.word(field.offset + WORD * id);
        match elem {
            ElemType::Index | ElemType::UInt(UIntKind::U32) => Some(ConstantValue::UInt(word.into())),
            ElemType::Int(IntKind::I32) => Some(ConstantValue::Int(i64::from(word.cast_signed()))),
            ElemType::Float(FloatKind::F32) => Some(ConstantValue::Float(f32::from_bits(word).into())),
            _ => None,
        }
    }

    /// Returns the constant value of an operation that reads a launch argument.
    fn answer(&self, ctx: &Context, op: Ptr<Operation>) -> Option<Box<dyn TypedAttrInterface>> {
        let axis = || const_operand::<IndexAttr>(ctx, op, 0).map(|axis| axis.0);
        let index = |value: usize| -> Box<dyn TypedAttrInterface> { Box::new(IndexAttr::new(value)) };
        if let Some(asks) = op.as_op::<BufferLenOp>(ctx) {
            return Some(index(self.fixed(self.info.buffer_len_index(asks.buffer_idx(ctx).0))));
        }
        if let Some(asks) = op.as_op::<ShapeOp>(ctx) {
            return Some(index(self.of_axis(self.info.shape_offset_index(asks.buffer_idx(ctx).0), axis()?)));
        }
        if let Some(asks) = op.as_op::<StrideOp>(ctx) {
            return Some(index(self.of_axis(self.info.stride_offset_index(asks.buffer_idx(ctx).0), axis()?)));
        }
        let asks = op.as_op::<ReadScalarOp>(ctx)?;
        let ty = Typed::get_type(&*asks.ty(ctx), ctx).deref(ctx);
        let elem = type_cast::<dyn ScalarType>(&*ty)?.elem_type(ctx);
        boxed_attr_cast(self.scalar(elem, asks.id(ctx).0)?.as_attribute(ctx, elem))
    }
}

impl MatchRewrite for Passed {
    fn r#match(&mut self, ctx: &Context, op: Ptr<Operation>) -> bool {
        self.answer(ctx, op).is_some()
    }

    fn rewrite(&mut self, ctx: &mut Context, rewriter: &mut MatchRewriter, op: Ptr<Operation>) -> Result<()> {
        let answer = self.answer(ctx, op).expect("only matching operations are rewritten");
        let constant = ConstantOp::new(ctx, answer);
        rewriter.replace_op_with(ctx, op, constant.get_operation());
        Ok(())
    }
}
