//! Parts shared by the bindings of NVIDIA's libraries: symbols, objects, and the strings of statuses.

use std::ffi::{CStr, c_char, c_int, c_void};

/// An object of a library, represented by a pointer.
pub(crate) type Object = *mut c_void;
/// Destructor call of an object.
pub(crate) type Destroy = unsafe extern "C" fn(Object) -> c_int;

/// Loads a library and resolves a table of its calls. The table keeps the library in its field `_library`. Fails as
/// [`libloading::Library::new`] and [`libloading::Library::get`] do.
///
/// # Safety
/// The library's initialisers are sound, and every field has the signature of its symbol.
macro_rules! resolve {
    ($file:expr => $table:ident { $($field:ident: $symbol:literal),* $(,)? } $($other:ident: $value:expr),*) => {
        libloading::Library::new($file).and_then(|library| {
            Ok($table { $($field: *library.get($symbol)?,)* $($other: $value,)* _library: library })
        })
    };
}
pub(crate) use resolve;

/// An object that is destroyed when it goes out of scope.
pub(crate) struct Owned {
    object: Object,
    destroy: Destroy,
}

impl Owned {
    /// Creates an object by `create`, which stores it at its argument and returns a status. `check` converts the status.
    ///
    /// # Safety
    /// An object that `create` reports as created is valid, and `destroy` is its destructor.
    pub(crate) unsafe fn new<E>(
        destroy: Destroy,
        check: impl FnOnce(c_int) -> Result<(), E>,
        create: impl FnOnce(*mut Object) -> c_int,
    ) -> Result<Owned, E> {
        let mut object = std::ptr::null_mut();
        check(create(&mut object))?;
        Ok(Owned { object, destroy })
    }

    /// Pointer to the object. It is valid as long as this value.
    pub(crate) fn object(&self) -> Object {
        self.object
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the creator's; the object is destroyed only here. A failure has no effect.
        let _ = unsafe { (self.destroy)(self.object) };
    }
}

/// String of a library for a status. `None` for a null pointer.
///
/// # Safety
/// `describe` returns null or a static string.
pub(crate) unsafe fn status_string(
    describe: unsafe extern "C" fn(c_int) -> *const c_char,
    status: c_int,
) -> Option<String> {
    // SAFETY: the caller's.
    let string = unsafe { describe(status) };
    // SAFETY: as above.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static DESTROYED: Cell<usize> = const { Cell::new(0) };
    }

    unsafe extern "C" fn destroy(object: Object) -> c_int {
        DESTROYED.set(DESTROYED.get() + object as usize);
        0
    }

    #[test]
    fn objects_are_destroyed_once_and_failures_never() {
        let check = |status| if status == 0 { Ok(()) } else { Err(status) };
        let create = |status: c_int| {
            let create = move |to: *mut Object| {
                // SAFETY: `to` is valid.
                unsafe { *to = 7 as Object };
                status
            };
            // SAFETY: the destructor reads no memory.
            unsafe { Owned::new(destroy, check, create) }
        };
        assert_eq!(create(3).err(), Some(3));
        assert_eq!(DESTROYED.get(), 0);
        let Ok(owned) = create(0) else { panic!("no object") };
        assert_eq!((owned.object() as usize, DESTROYED.get()), (7, 0));
        drop(owned);
        assert_eq!(DESTROYED.get(), 7);
    }

    #[test]
    fn a_status_without_a_string_has_none() {
        unsafe extern "C" fn describe(status: c_int) -> *const c_char {
            if status == 0 { c"success".as_ptr() } else { std::ptr::null() }
        }
        // SAFETY: the strings are static.
        let string = |status| unsafe { status_string(describe, status) };
        assert_eq!((string(0).as_deref(), string(1)), (Some("success"), None));
    }
}
