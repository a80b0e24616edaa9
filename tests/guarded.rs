//! Kernel sources for compilers that guard loops.
//!
//! Drivers do not unroll a guarded loop. An array of a thread that such a loop indexes lies in memory, and the kernel becomes several
//! times as slow. So no loop that is left may index one.

use std::collections::{BTreeMap, BTreeSet};

use naga::{AddressSpace, Block, Expression, Function, Handle, Module, Statement, TypeInner};
use parallax_engine::plan::plan;
use parallax_ir::device::typical;
use parallax_schema::case::Preset;
use parallax_schema::spec::Spec;
use parallax_shaders::source::{Form, WrittenLoops, assemble_all};

use parallax_tests::wgsl_texts;

/// Functions that read the last, incomplete vector of a row element by element. Other rows do not call them in a loop.
const OF_INCOMPLETE_VECTORS: [&str; 6] =
    ["f16x8_of_a", "f16x8_of_b", "f16x8_of_k", "f16x8_of_q", "f16x8_of_v", "terms_of_row"];

#[test]
fn guarded_loops_index_no_local_array() {
    let caps = typical::native();
    let plan = plan(&Spec { preset: Preset::Quick, ..Spec::default() }, &caps).expect("a plan");
    let (texts, mut found) = (wgsl_texts(), BTreeMap::<String, String>::new());
    let (mut seen, mut kernels) = (BTreeSet::new(), 0);
    for case in plan.cases.iter().map(|planned| &planned.case) {
        let Some(program) = case.program(&caps) else { continue };
        let form = Form { loops: WrittenLoops::Long, ..Form::HERE };
        let Ok((sources, _)) = assemble_all(&texts, &program, case.problem.dtype, form) else { continue };
        for source in sources.iter().filter(|source| seen.insert(source.hash())) {
            kernels += 1;
            let module = naga::front::wgsl::parse_str(&source.wgsl)
                .unwrap_or_else(|e| panic!("{case}: {}", e.emit_to_string(&source.wgsl)));
            let functions = module.functions.iter().map(|(_, function)| function);
            for function in functions.chain(module.entry_points.iter().map(|entry| &entry.function)) {
                let name = function.name.as_deref().unwrap_or_default();
                if !OF_INCOMPLETE_VECTORS.contains(&name) && in_loops(&module, function, &function.body, false) {
                    found.insert(format!("{} {name}", source.file), case.to_string());
                }
            }
        }
    }
    assert!(kernels > 100, "{kernels} kernels");
    assert!(found.is_empty(), "{found:#?}");
}

/// Whether a loop of the block indexes a local array by a value that is not constant.
fn in_loops(module: &Module, function: &Function, block: &Block, within: bool) -> bool {
    let inner = |block: &Block, within| in_loops(module, function, block, within);
    block.iter().any(|statement| match statement {
        Statement::Emit(range) => within && range.clone().any(|expression| varies(module, function, expression)),
        Statement::Block(block) => inner(block, within),
        Statement::If { accept, reject, .. } => inner(accept, within) || inner(reject, within),
        Statement::Switch { cases, .. } => cases.iter().any(|case| inner(&case.body, within)),
        Statement::Loop { body, continuing, .. } => inner(body, true) || inner(continuing, true),
        _ => false,
    })
}

fn varies(module: &Module, function: &Function, expression: Handle<Expression>) -> bool {
    match function.expressions[expression] {
        Expression::Access { base, index } => local_array(module, function, base) && !constant(function, index),
        _ => false,
    }
}

/// Whether an expression is a local array, or a part of one.
fn local_array(module: &Module, function: &Function, expression: Handle<Expression>) -> bool {
    let array = |of| matches!(module.types[of].inner, TypeInner::Array { .. });
    match function.expressions[expression] {
        Expression::LocalVariable(variable) => array(function.local_variables[variable].ty),
        Expression::FunctionArgument(i) => match module.types[function.arguments[i as usize].ty].inner {
            TypeInner::Pointer { base, space: AddressSpace::Function } => array(base),
            _ => false,
        },
        Expression::AccessIndex { base, .. } | Expression::Access { base, .. } => local_array(module, function, base),
        _ => false,
    }
}

/// Whether drivers compute an expression when they compile.
fn constant(function: &Function, expression: Handle<Expression>) -> bool {
    let of = |expression| constant(function, expression);
    match function.expressions[expression] {
        Expression::Literal(_) | Expression::Constant(_) | Expression::ZeroValue(_) => true,
        Expression::Binary { left, right, .. } => of(left) && of(right),
        Expression::Unary { expr, .. } | Expression::As { expr, .. } => of(expr),
        Expression::Select { condition, accept, reject } => of(condition) && of(accept) && of(reject),
        _ => false,
    }
}
