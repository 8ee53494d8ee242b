//! What each worker has for itself and several of its nodes share: session tables.
//!
//! A node's own state is in the node. What nodes share is declared to the [`Schema`](crate::publish::Schema), as published tables are, made once
//! per worker, and found by a typed [`LocalKey`]. No lock: a worker runs one node at a time.

use core::any::{Any, TypeId, type_name};
use core::fmt;
use core::marker::PhantomData;

/// Where a worker's part of type `T` is found.
pub struct LocalKey<T> {
    index: u16,
    part: PhantomData<fn() -> T>,
}

impl<T> Clone for LocalKey<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for LocalKey<T> {}
impl<T> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalKey<{}>({})", type_name::<T>(), self.index)
    }
}

/// One part's declaration: its type, and how a worker gets one.
#[derive(Clone, Copy)]
struct LocalSpec {
    id: TypeId,
    make: fn() -> Box<dyn Any + Send>,
}

/// The parts that each worker has.
#[derive(Default)]
pub(crate) struct LocalSpecs(Vec<LocalSpec>);

impl LocalSpecs {
    pub(crate) fn declare<T: Default + Send + 'static>(&mut self) {
        if self.key::<T>().is_none() {
            self.0.push(LocalSpec { id: TypeId::of::<T>(), make: || Box::new(T::default()) });
        }
    }

    pub(crate) fn key<T: 'static>(&self) -> Option<LocalKey<T>> {
        let index = self.0.iter().position(|spec| spec.id == TypeId::of::<T>())?;
        Some(LocalKey { index: index as u16, part: PhantomData })
    }

    pub(crate) fn make(&self) -> Locals {
        Locals(self.0.iter().map(|spec| (spec.make)()).collect())
    }
}

/// One worker's parts.
pub struct Locals(Box<[Box<dyn Any + Send>]>);

impl fmt::Debug for Locals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locals").field("parts", &self.0.len()).finish()
    }
}

impl Locals {
    /// The part at `key`.
    ///
    /// # Panics
    /// If the key comes from another schema.
    #[must_use]
    #[inline]
    pub fn get<T: 'static>(&mut self, key: LocalKey<T>) -> &mut T {
        match self.0[key.index as usize].downcast_mut() {
            Some(part) => part,
            None => panic!("{key:?} is of another schema"),
        }
    }
}
