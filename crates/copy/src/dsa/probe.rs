//! Whether a queue answers.

use std::time::{Duration, Instant};

use super::{Accepted, Descriptor, Flags, Portal, Record, Status};

/// Bytes that are copied.
const BYTES: usize = 4096;
/// Between two looks.
const PAUSE: Duration = Duration::from_micros(100);

/// Has a queue copy something of our own; gives the portal back where it did so in time.
///
/// # Errors
/// What it did instead. The portal is closed then.
pub(super) fn probe(portal: Box<dyn Portal>, patience: Duration) -> Result<Box<dyn Portal>, String> {
    let (from, mut to, record) = (vec![0x5a_u8; BYTES], vec![0_u8; BYTES], Box::new(Record::default()));
    // Behind what it writes to, so that it is dropped before that, whatever happens.
    let portal = portal;
    let begin = Instant::now();
    let (source, destination) = (from.as_ptr().expose_provenance(), to.as_mut_ptr().expose_provenance());
    let descriptor =
        Descriptor::mem_move(Flags::CACHE, source as u64, destination as u64, BYTES as u32, record.address());
    // SAFETY: what it points to is there until the record is written, or the portal dropped.
    #[allow(unsafe_code)]
    while unsafe { portal.submit(&descriptor, 0) } == Accepted::Full {
        if begin.elapsed() > patience {
            return Err("it is full of what others have for it".into());
        }
        std::thread::sleep(PAUSE);
    }
    loop {
        match record.read().status {
            Status::None if begin.elapsed() > patience => {
                return Err(format!("no answer within {patience:?}"));
            }
            Status::None => std::thread::sleep(PAUSE),
            Status::Success if to == from => return Ok(portal),
            Status::Success => return Err("it says that it has copied what it hasn't".into()),
            status => return Err(format!("a copy within memory of our own ended with {status:?}")),
        }
    }
}
