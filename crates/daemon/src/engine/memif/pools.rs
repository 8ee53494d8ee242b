//! The buffers of trust groups.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use ::memif::Pool;
use ::memif::region::HugePages;

use crate::model::Flaw;
use crate::model::spec::MemifSpec;

/// Buffers of a trust group: enough for eight interfaces of one queue each way with rings of the usual size. All are allocated
/// when the group's first interface is.
const BUFFERS: u32 = 16_384;

/// By name of the group. They go when the group's last interface goes.
#[derive(Debug)]
pub(super) struct Pools {
    list: HashMap<String, Weak<Pool>>,
    huge_pages: HugePages,
}

impl Pools {
    pub(super) fn new(huge_pages: HugePages) -> Self {
        Self { list: HashMap::new(), huge_pages }
    }

    /// The buffers of the interface's trust group, if it is in one.
    ///
    /// # Errors
    /// [`Flaw`] where there is no memory for them.
    pub(super) fn of(&mut self, spec: &MemifSpec) -> Result<Option<Arc<Pool>>, Flaw> {
        if spec.trust_group.is_empty() {
            return Ok(None);
        }
        self.list.retain(|_, pool| pool.strong_count() > 0);
        let there = self.list.get(&spec.trust_group).and_then(Weak::upgrade);
        // All of a group may have been given another size at once.
        if let Some(pool) = there.filter(|pool| pool.buffer_size() == spec.buffer_size) {
            return Ok(Some(pool));
        }
        let pool =
            Pool::new(&spec.trust_group, BUFFERS, spec.buffer_size, self.huge_pages).map_err(|error| {
                Flaw::new("memif.trust_group", format!("{}: {}", spec.trust_group, error.cause)).remedy(
                    "see that there is memory for its buffers, or leave it out: packets are copied then",
                )
            })?;
        self.list.insert(spec.trust_group.clone(), Arc::downgrade(&pool));
        Ok(Some(pool))
    }
}
