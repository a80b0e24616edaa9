//! Bounds of kernel sources. Compilers of drivers have none: they end the program, or take all of the memory.

use std::collections::HashMap;

use naga::valid::{FunctionInfo, ModuleInfo};
use naga::{AddressSpace, Block, Expression, Function, Handle, Module, Statement, Type, TypeInner};

use crate::layout::type_name;

/// Largest number of parts of a type.
const MOST_PARTS: usize = 10_000;
/// Largest size in bytes of a value, of private memory, and of the local variables of functions that call each other.
const LARGEST_VALUE: u64 = 1 << 16;
/// Largest number of expressions of an entry point and of the functions that it calls, counted at each call. Drivers inline all calls.
const MOST_EXPRESSIONS: u64 = 100_000;

/// Calls `visit` with each statement of a block, and of the blocks inside it.
pub(crate) fn each_statement(block: &Block, visit: &mut dyn FnMut(&Statement)) {
    for statement in block.iter() {
        visit(statement);
        match statement {
            Statement::Block(inner) => each_statement(inner, visit),
            Statement::If { accept, reject, .. } => {
                each_statement(accept, visit);
                each_statement(reject, visit);
            }
            Statement::Switch { cases, .. } => cases.iter().for_each(|case| each_statement(&case.body, visit)),
            Statement::Loop { body, continuing, .. } => {
                each_statement(body, visit);
                each_statement(continuing, visit);
            }
            _ => {}
        }
    }
}

/// Checks that no type has too many parts. Structures of structures can double them at each level, and compilers visit each.
///
/// # Errors
/// Description of the first such type.
pub(crate) fn few_parts(module: &Module) -> Result<(), String> {
    let mut parts: HashMap<Handle<Type>, usize> = HashMap::new();
    // The parts of a type precede it in the module.
    for (handle, ty) in module.types.iter() {
        let known = |ty: &Handle<Type>| parts.get(ty).copied().unwrap_or(1);
        let own = match &ty.inner {
            TypeInner::Array { base, .. } => known(base),
            TypeInner::Struct { members, .. } => members.iter().map(|member| known(&member.ty)).sum(),
            _ => 1,
        };
        if own > MOST_PARTS {
            let name = ty.name.as_deref().unwrap_or("?");
            return Err(format!("the type `{name}` has more than {MOST_PARTS} parts"));
        }
        parts.insert(handle, own);
    }
    Ok(())
}

/// Checks that no constant is too large. Compilers write each element of a constant.
///
/// # Errors
/// Description of the first such constant.
pub(crate) fn small_constants(module: &Module) -> Result<(), String> {
    let typed = module.global_expressions.iter().filter_map(|(_, expression)| match expression {
        Expression::Compose { ty, .. } | Expression::ZeroValue(ty) => Some(*ty),
        _ => None,
    });
    let of_type = |ty| small(module, &module.types[ty].inner, || type_name(module, ty));
    typed.chain(module.constants.iter().map(|(_, constant)| constant.ty)).try_for_each(of_type)
}

/// Checks a value or a variable of an invocation.
fn small(module: &Module, inner: &TypeInner, name: impl Fn() -> String) -> Result<(), String> {
    match size(module, inner) {
        bytes if bytes > LARGEST_VALUE => {
            Err(format!("a value of type `{}` has {bytes} bytes, the limit is {LARGEST_VALUE}", name()))
        }
        _ => Ok(()),
    }
}

/// Size of a type in bytes; of one beyond 32 bits, the largest number.
pub(crate) fn size(module: &Module, inner: &TypeInner) -> u64 {
    inner.try_size(module.to_ctx()).map_or(u64::from(u32::MAX), u64::from)
}

/// Sums of a function with the functions that it calls.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Expressions, at each call anew.
    expressions: u64,
    /// Bytes of local variables on the deepest path of calls.
    local_bytes: u64,
}

/// Checks the memory of an invocation, and the expressions after all calls are inlined.
///
/// # Errors
/// Description of the excess.
pub(crate) fn modest(module: &Module, info: &ModuleInfo) -> Result<(), String> {
    small_constants(module)?;
    let private = module.global_variables.iter().filter(|(_, global)| global.space == AddressSpace::Private);
    let private_bytes: u64 = private.map(|(_, global)| size(module, &module.types[global.ty].inner)).sum();
    if private_bytes > LARGEST_VALUE {
        return Err(format!("its private variables have {private_bytes} bytes, the limit is {LARGEST_VALUE}"));
    }
    let mut known = HashMap::new();
    // Functions precede their callers in the module.
    for (handle, function) in module.functions.iter() {
        known.insert(handle, sums(module, function, &info[handle], &known)?);
    }
    for (index, entry) in module.entry_points.iter().enumerate() {
        let Sums { expressions, local_bytes } = sums(module, &entry.function, info.get_entry_point(index), &known)?;
        if expressions > MOST_EXPRESSIONS {
            return Err(format!(
                "`{}` has more than {MOST_EXPRESSIONS} expressions with the functions that it calls",
                entry.name
            ));
        }
        if local_bytes > LARGEST_VALUE {
            return Err(format!(
                "the local variables of `{}` and of the functions that it calls have {local_bytes} bytes, the limit is {LARGEST_VALUE}",
                entry.name
            ));
        }
    }
    Ok(())
}

/// Returns the sums of a function.
///
/// # Errors
/// Description of a value that is too large.
fn sums(
    module: &Module,
    function: &Function,
    info: &FunctionInfo,
    known: &HashMap<Handle<Function>, Sums>,
) -> Result<Sums, String> {
    for (handle, _) in function.expressions.iter() {
        let ty = &info[handle].ty;
        let name = || ty.handle().map_or("?".to_owned(), |ty| type_name(module, ty));
        small(module, ty.inner_with(&module.types), name)?;
    }
    let locals = function.local_variables.iter().map(|(_, local)| size(module, &module.types[local.ty].inner));
    let mut sums = Sums { expressions: function.expressions.len() as u64, local_bytes: locals.sum() };
    let mut deepest = 0;
    each_statement(&function.body, &mut |statement| {
        if let Statement::Call { function, .. } = statement {
            let callee = known.get(function).copied().unwrap_or_default();
            sums.expressions = sums.expressions.saturating_add(callee.expressions);
            deepest = deepest.max(callee.local_bytes);
        }
    });
    sums.local_bytes = sums.local_bytes.saturating_add(deepest);
    Ok(sums)
}
