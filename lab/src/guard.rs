//! Variant of a kernel whose loops end.
//!
//! Drivers without a watchdog never end an endless loop, and with it hangs every program on the GPU. So the first execution is that of
//! a variant: each loop counts its iterations in each invocation, and ends after a limit. It then sets a flag in a further buffer. A
//! kernel with such a loop is not executed as it is.
//!
//! With barriers or subgroup operations the counters are local variables, one per loop. A loop in uniform control flow so has a uniform
//! counter, and barriers stay valid. Without them the counters are private variables, which count over all calls of a function. Each
//! iteration then also looks at the flag: after the first loop at its limit, all others end.

use naga::valid::{ValidationFlags, Validator};
use naga::{
    AddressSpace, BinaryOperator, Block, Expression, Function, GlobalVariable, Handle, Literal, LocalVariable, Module,
    Range, ResourceBinding, Scalar, Span, Statement, StorageAccess, Type, TypeInner,
};

use crate::bounds::each_statement;
use crate::program::capabilities;
use crate::request::BindingPoint;

/// Variant of a kernel source whose loops end.
#[derive(Debug, Clone, PartialEq)]
pub struct Guarded {
    /// WGSL.
    pub wgsl: String,
    /// Binding of the flag, an `atomic<u32>`.
    pub flag: BindingPoint,
}

/// Largest number of private counters. Further loops share them: a browser may refuse more than 8 kB of private memory.
const MOST_COUNTERS: usize = 1024;

/// Module-wide parts of the variant.
struct Parts {
    counter: Handle<Type>,
    flag: Handle<GlobalVariable>,
    limit: u32,
    /// Private counters. Empty with barriers or subgroup operations.
    counters: Vec<Handle<GlobalVariable>>,
    /// Number of loops that are guarded.
    guarded: usize,
}

/// Returns the variant of a module with a limit of iterations; `None` for a module without loops, or one that naga cannot write.
pub(crate) fn guarded(module: &Module, limit: u32) -> Option<Guarded> {
    let entries = module.entry_points.iter().map(|entry| &entry.function.body);
    let (mut loops, mut collective) = (0, false);
    for body in module.functions.iter().map(|(_, function)| &function.body).chain(entries) {
        each_statement(body, &mut |statement| {
            loops += usize::from(matches!(statement, Statement::Loop { .. }));
            collective |= is_collective(statement);
        });
    }
    if loops == 0 {
        return None;
    }
    let mut module = module.clone();
    let groups = module.global_variables.iter().filter_map(|(_, global)| Some(global.binding?.group));
    let point = BindingPoint { group: groups.max().map_or(Some(0), |last| last.checked_add(1))?, binding: 0 };
    let span = Span::UNDEFINED;
    let counter = Type { name: None, inner: TypeInner::Scalar(Scalar::U32) };
    let flag = Type { name: None, inner: TypeInner::Atomic(Scalar::U32) };
    let (counter, flag) = (module.types.insert(counter, span), module.types.insert(flag, span));
    let flag = module.global_variables.append(
        GlobalVariable {
            name: Some("loop_flag".to_owned()),
            space: AddressSpace::Storage { access: StorageAccess::LOAD | StorageAccess::STORE },
            binding: Some(ResourceBinding { group: point.group, binding: point.binding }),
            ty: flag,
            init: None,
            memory_decorations: Default::default(),
        },
        span,
    );
    let counters = if collective { 0 } else { loops.min(MOST_COUNTERS) };
    let counters = (0..counters).map(|_| private_counter(&mut module, counter)).collect();
    let mut parts = Parts { counter, flag, limit, counters, guarded: 0 };
    let functions = module.functions.iter_mut().map(|(_, function)| function);
    let entries = module.entry_points.iter_mut().map(|entry| &mut entry.function);
    functions.chain(entries).for_each(|function| guard(function, &mut parts));
    let info = Validator::new(ValidationFlags::all(), capabilities()).validate(&module).ok()?;
    let wgsl = naga::back::wgsl::write_string(&module, &info, naga::back::wgsl::WriterFlags::empty()).ok()?;
    Some(Guarded { wgsl, flag: point })
}

/// Whether a statement needs all invocations of a group.
fn is_collective(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::ControlBarrier(_)
            | Statement::MemoryBarrier(_)
            | Statement::WorkGroupUniformLoad { .. }
            | Statement::SubgroupBallot { .. }
            | Statement::SubgroupGather { .. }
            | Statement::SubgroupCollectiveOperation { .. }
    )
}

/// Adds a private variable that begins with zero.
fn private_counter(module: &mut Module, ty: Handle<Type>) -> Handle<GlobalVariable> {
    let zero = module.global_expressions.append(Expression::Literal(Literal::U32(0)), Span::UNDEFINED);
    module.global_variables.append(
        GlobalVariable {
            name: Some("iterations".to_owned()),
            space: AddressSpace::Private,
            binding: None,
            ty,
            init: Some(zero),
            memory_decorations: Default::default(),
        },
        Span::UNDEFINED,
    )
}

/// Guards every loop of a function.
fn guard(function: &mut Function, parts: &mut Parts) {
    let mut body = std::mem::take(&mut function.body);
    guard_block(&mut body, function, parts);
    function.body = body;
}

fn guard_block(block: &mut Block, function: &mut Function, parts: &mut Parts) {
    for statement in block.iter_mut() {
        match statement {
            Statement::Block(inner) => guard_block(inner, function, parts),
            Statement::If { accept, reject, .. } => {
                guard_block(accept, function, parts);
                guard_block(reject, function, parts);
            }
            Statement::Switch { cases, .. } => {
                cases.iter_mut().for_each(|case| guard_block(&mut case.body, function, parts));
            }
            Statement::Loop { body, continuing, .. } => {
                guard_block(body, function, parts);
                guard_block(continuing, function, parts);
                body.splice(0..0, count(function, parts));
            }
            _ => {}
        }
    }
}

/// Returns the statements before an iteration: they count it, and leave the loop at its limit.
fn count(function: &mut Function, parts: &mut Parts) -> Block {
    let span = Span::UNDEFINED;
    let expressions = &mut function.expressions;
    let mut add = |expression| expressions.append(expression, span);
    let number = |value| Expression::Literal(Literal::U32(value));
    // Constants and variables need no statement that evaluates them.
    let [zero, one, limit] = [0, 1, parts.limit].map(|value| add(number(value)));
    let shared = parts.counters.get(parts.guarded % parts.counters.len().max(1));
    let counter = match shared {
        Some(counter) => Expression::GlobalVariable(*counter),
        None => {
            let counter = LocalVariable { name: Some("iterations".to_owned()), ty: parts.counter, init: Some(zero) };
            Expression::LocalVariable(function.local_variables.append(counter, span))
        }
    };
    let looks = shared.is_some();
    parts.guarded += 1;
    let (counter, flag) = (add(counter), add(Expression::GlobalVariable(parts.flag)));
    let old = add(Expression::Load { pointer: counter });
    let new = add(Expression::Binary { op: BinaryOperator::Add, left: old, right: one });
    let over = add(Expression::Binary { op: BinaryOperator::Greater, left: new, right: limit });
    let evaluated = |first, last| Statement::Emit(Range::new_from_bounds(first, last));
    let end = |accept: Vec<Statement>, condition| Statement::If {
        condition,
        accept: Block::from_vec(accept),
        reject: Block::new(),
    };
    let mut statements = vec![
        evaluated(old, over),
        Statement::Store { pointer: counter, value: new },
        end(vec![Statement::Store { pointer: flag, value: one }, Statement::Break], over),
    ];
    if looks {
        let seen = add(Expression::Load { pointer: flag });
        let set = add(Expression::Binary { op: BinaryOperator::NotEqual, left: seen, right: zero });
        statements.extend([evaluated(seen, set), end(vec![Statement::Break], set)]);
    }
    Block::from_vec(statements)
}
