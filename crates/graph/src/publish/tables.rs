//! A snapshot of everything that workers read.

use crate::locals::{LocalKey, LocalSpecs};
use core::any::{Any, TypeId, type_name};
use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;

type Part = Arc<dyn Any + Send + Sync>;

/// Where a part of type `T` is found.
pub struct Key<T> {
    index: u16,
    part: PhantomData<fn() -> T>,
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Key<T> {}
impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key<{}>({})", type_name::<T>(), self.index)
    }
}

/// The parts that there are, with the default state of each. Declared once, before the graph is built.
#[derive(Default)]
pub struct Schema {
    parts: Vec<(TypeId, &'static str, Part)>,
    pub(crate) locals: LocalSpecs,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts.iter().map(|part| part.1)).finish()
    }
}

impl Schema {
    /// Declares a part, in its default state. Declaring it again changes nothing.
    pub fn part<T: Default + Send + Sync + 'static>(&mut self) {
        if self.key::<T>().is_none() {
            self.parts.push((TypeId::of::<T>(), type_name::<T>(), Arc::new(T::default())));
        }
    }

    /// Where the part of type `T` is found.
    #[must_use]
    pub fn key<T: 'static>(&self) -> Option<Key<T>> {
        let index = self.parts.iter().position(|part| part.0 == TypeId::of::<T>())?;
        Some(Key { index: index as u16, part: PhantomData })
    }

    /// Declares what each worker has for itself, in the state that it begins with. Declaring it again changes nothing.
    pub fn local<T: Default + Send + 'static>(&mut self) {
        self.locals.declare::<T>();
    }

    /// Where a worker's part of type `T` is found.
    #[must_use]
    pub fn local_key<T: 'static>(&self) -> Option<LocalKey<T>> {
        self.locals.key()
    }

    /// The first snapshot: each part in its default state.
    #[must_use]
    pub fn tables(&self) -> Tables {
        Tables { version: 0, parts: self.parts.iter().map(|part| Arc::clone(&part.2)).collect() }
    }
}

/// One version of all tables. Read-only; parts with interior atomics are changed in place by their one writer.
pub struct Tables {
    version: u64,
    parts: Box<[Part]>,
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Tables {
    /// Counts up with each publication.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The part at `key`.
    ///
    /// # Panics
    /// If the key comes from another schema: keys are made by the schema these tables are of.
    #[must_use]
    #[inline]
    pub fn get<T: Send + Sync + 'static>(&self, key: Key<T>) -> &T {
        match self.parts[key.index as usize].downcast_ref() {
            Some(part) => part,
            None => panic!("{key:?} is of another schema"),
        }
    }

    /// The part at `key`, to be kept or shared with the next version.
    ///
    /// # Panics
    /// As [`Tables::get`].
    #[must_use]
    pub fn share<T: Send + Sync + 'static>(&self, key: Key<T>) -> Arc<T> {
        match Arc::clone(&self.parts[key.index as usize]).downcast() {
            Ok(part) => part,
            Err(_) => panic!("{key:?} is of another schema"),
        }
    }

    /// The next version, to begin with the same as this one.
    #[must_use]
    pub fn draft(&self) -> Draft {
        Draft(Self { version: self.version + 1, parts: self.parts.clone() })
    }
}

/// A version that isn't published yet.
#[derive(Debug)]
pub struct Draft(pub(super) Tables);

impl Draft {
    /// What it will say at `key`.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self, key: Key<T>) -> &T {
        self.0.get(key)
    }

    /// Replaces a part.
    pub fn set<T: Send + Sync + 'static>(&mut self, key: Key<T>, part: T) {
        self.0.parts[key.index as usize] = Arc::new(part);
    }

    /// Changes a copy of a part.
    pub fn change<T: Clone + Send + Sync + 'static, R>(
        &mut self,
        key: Key<T>,
        change: impl FnOnce(&mut T) -> R,
    ) -> R {
        let mut part = self.get(key).clone();
        let result = change(&mut part);
        self.set(key, part);
        result
    }
}
