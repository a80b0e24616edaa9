//! Descriptors: the library's input and output objects, with typed attributes.

use std::ffi::c_void;

use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
};
use parallax_ir::device::BackendError;

use super::api::Api;
use crate::ffi::{Object, Owned};

/// A descriptor that is destroyed when it goes out of scope.
pub(super) struct Descriptor {
    api: &'static Api,
    owned: Owned,
}

impl Descriptor {
    /// Creates a descriptor of a kind, without attributes.
    pub(super) fn new(api: &'static Api, kind: Kind) -> Result<Descriptor, BackendError> {
        let check = |status| api.check(&format!("creating {kind:?}"), status);
        // SAFETY: the calls are a pair, and the argument outlives the call.
        let owned = unsafe { Owned::new(api.destroy, check, |object| (api.create)(kind as u32, object)) }?;
        Ok(Descriptor { api, owned })
    }

    /// Pointer for other descriptors. It is valid as long as this descriptor.
    pub(super) fn object(&self) -> Object {
        self.owned.object()
    }

    /// Sets an attribute to values, which the library copies.
    ///
    /// # Safety
    /// `T` is the C type of the header for the attribute's type, and objects among the values are alive.
    unsafe fn set_raw<T>(&self, name: Name, kind: Type, values: &[T]) -> Result<(), BackendError> {
        // SAFETY: the descriptor is alive, and `values` holds that number of values of the type.
        let status = unsafe {
            (self.api.set)(
                self.object(),
                name as u32,
                kind as u32,
                values.len() as i64,
                values.as_ptr().cast::<c_void>(),
            )
        };
        self.api.check(&format!("setting {name:?}"), status)
    }

    /// Sets 64-bit integers.
    pub(super) fn integers(&self, name: Name, values: &[i64]) -> Result<(), BackendError> {
        // SAFETY: the type's values are 64-bit integers.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_INT64, values) }
    }

    /// Sets a truth value.
    pub(super) fn flag(&self, name: Name, value: bool) -> Result<(), BackendError> {
        // SAFETY: the type's values are bytes.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_BOOLEAN, &[u8::from(value)]) }
    }

    /// Sets a 32-bit float.
    pub(super) fn float(&self, name: Name, value: f32) -> Result<(), BackendError> {
        // SAFETY: the type's values are floats.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_FLOAT, &[value]) }
    }

    /// Sets a 64-bit float.
    pub(super) fn double(&self, name: Name, value: f64) -> Result<(), BackendError> {
        // SAFETY: the type's values are doubles.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_DOUBLE, &[value]) }
    }

    /// Sets a value of an enumeration. All enumerations are 32-bit integers.
    pub(super) fn choice(&self, name: Name, kind: Type, value: u32) -> Result<(), BackendError> {
        // SAFETY: the type's values are an enumeration.
        unsafe { self.set_raw(name, kind, &[value]) }
    }

    /// Sets other descriptors. They must outlive the use of this one.
    pub(super) fn descriptors(&self, name: Name, values: &[&Descriptor]) -> Result<(), BackendError> {
        let objects: Vec<Object> = values.iter().map(|value| value.object()).collect();
        // SAFETY: the type's values are pointers of descriptors, which are alive.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &objects) }
    }

    /// Sets the handle of the library.
    pub(super) fn handle(&self, name: Name, handle: Object) -> Result<(), BackendError> {
        // SAFETY: the type's value is a handle.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_HANDLE, &[handle]) }
    }

    /// Sets device or host addresses.
    pub(super) fn addresses(&self, name: Name, values: &[*mut c_void]) -> Result<(), BackendError> {
        // SAFETY: the type's values are addresses, which the library does not dereference before it executes a plan.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_VOID_PTR, values) }
    }

    /// Sets a string.
    #[cfg(test)]
    pub(super) fn text(&self, name: Name, value: &str) -> Result<(), BackendError> {
        // SAFETY: the type's values are bytes.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_CHAR, value.as_bytes()) }
    }

    /// Finalises the descriptor. Its attributes are readable afterwards, and no longer writable.
    pub(super) fn finalized(self, doing: &str) -> Result<Descriptor, BackendError> {
        // SAFETY: the descriptor is alive.
        self.api.check(doing, unsafe { (self.api.finalize)(self.object()) })?;
        Ok(self)
    }

    /// Reads values of an attribute, at most `values.len()`. Returns the number of values written.
    ///
    /// # Safety
    /// As for [`Self::set_raw`].
    unsafe fn get_raw<T>(&self, name: Name, kind: Type, values: &mut [T]) -> Result<usize, BackendError> {
        let mut count = 0;
        let (room, place) = (values.len() as i64, values.as_mut_ptr().cast::<c_void>());
        // SAFETY: the descriptor is alive, and there is room for that number of values.
        let status = unsafe { (self.api.get)(self.object(), name as u32, kind as u32, room, &mut count, place) };
        self.api.check(&format!("reading {name:?}"), status)?;
        Ok(usize::try_from(count).unwrap_or(0).min(values.len()))
    }

    /// Returns a 64-bit integer.
    pub(super) fn integer(&self, name: Name) -> Result<i64, BackendError> {
        let mut value = [0i64];
        // SAFETY: the type's values are 64-bit integers.
        unsafe { self.get_raw(name, Type::CUDNN_TYPE_INT64, &mut value) }?;
        Ok(value[0])
    }

    /// Returns values of an enumeration, at most `most`.
    pub(super) fn choices(&self, name: Name, kind: Type, most: usize) -> Result<Vec<u32>, BackendError> {
        let mut values = vec![0u32; most];
        // SAFETY: the type's values are an enumeration.
        let count = unsafe { self.get_raw(name, kind, &mut values) }?;
        values.truncate(count);
        Ok(values)
    }

    /// Returns the descriptors of a kind in an attribute, at most `most`.
    pub(super) fn held(&self, name: Name, kind: Kind, most: usize) -> Result<Vec<Descriptor>, BackendError> {
        let mut held = (0..most).map(|_| Descriptor::new(self.api, kind)).collect::<Result<Vec<_>, _>>()?;
        let mut objects: Vec<Object> = held.iter().map(|one| one.object()).collect();
        // SAFETY: the library writes into the descriptors behind the pointers.
        let count = unsafe { self.get_raw(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &mut objects) }?;
        held.truncate(count);
        Ok(held)
    }

    /// Number of values of an attribute.
    pub(super) fn count(&self, name: Name, kind: Type) -> Result<usize, BackendError> {
        let mut count = 0;
        // SAFETY: the descriptor is alive; the call writes no value where there is no room.
        let status =
            unsafe { (self.api.get)(self.object(), name as u32, kind as u32, 0, &mut count, std::ptr::null_mut()) };
        self.api.check(&format!("counting {name:?}"), status)?;
        Ok(usize::try_from(count).unwrap_or(0))
    }
}
