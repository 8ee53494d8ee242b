//! What happened on a work queue.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What happened on a work queue, since it was opened.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// [`Counts`] that several channels add to.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $($name: AtomicU64,)*
        }

        impl Counters {
            /// Adds what a channel has counted, and makes that nothing.
            pub fn take(&self, counts: &mut Counts) {
                let counts = std::mem::take(counts);
                $(if counts.$name > 0 { self.$name.fetch_add(counts.$name, Ordering::Relaxed); })*
            }

            /// The sums.
            pub fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl std::ops::AddAssign for Counts {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counts! {
    /// Transfers that were asked for: `completed` and `fallbacks` together, once they are done.
    transfers,
    /// Descriptors that the device took, each for one transfer or for a batch of them.
    submitted,
    /// Of those: batches.
    batches,
    /// Transfers that the device did.
    completed,
    /// Bytes that the device copied.
    bytes,
    /// Transfers that the CPU did, or did the rest of, because of what the next four say or because the device was given up.
    fallbacks,
    /// Bytes of those that the CPU copied.
    fallback_bytes,
    /// Transfers that ended at a page that wasn't there.
    faults,
    /// Transfers that ended with an error.
    errors,
    /// Times that the queue was full and it was tried again.
    retries,
    /// Transfers for which there was no room in spite of that, or none in the channel.
    full,
}
