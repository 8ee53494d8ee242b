//! The forwarding tables.

use api::v1::FibEntry;

use super::super::core::Core;
use crate::dataplane::{FibQuery, InspectError};

pub(super) fn entries(
    core: &Core,
    query: &FibQuery,
    each: &mut dyn FnMut(FibEntry) -> bool,
) -> Result<(), InspectError> {
    let _ = (core, query, each);
    Ok(())
}
