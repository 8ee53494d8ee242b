//! Shares of a ring: whoever floods a pod doesn't take the room of others that send to it.
//!
//! Dynamic thresholds (Choudhury and Hahne 1998): an interface may have as much of the ring as [`ALPHA`] times what is free. One that sends alone gets
//! eight ninths of it; a ninth is left for those that come.

/// How much of the room one interface may have, as a multiple of what is free.
const ALPHA: usize = 8;
/// Interfaces are told apart by so many buckets: all of them on most nodes.
const BUCKETS: usize = 1024;

/// What the frames on their way came in by: number and bytes of memory, by bucket.
#[derive(Debug)]
pub(super) struct Shares {
    buckets: Box<[Share]>,
    all_frames: usize,
    all_memory: usize,
}

/// What came in by the interfaces of a bucket.
#[derive(Clone, Debug, Default)]
struct Share {
    frames: u32,
    memory: u32,
}

impl Default for Shares {
    fn default() -> Self {
        Self { buckets: vec![Share::default(); BUCKETS].into(), all_frames: 0, all_memory: 0 }
    }
}

impl Shares {
    /// Frames on their way.
    pub(super) const fn frames(&self) -> usize {
        self.all_frames
    }

    /// Charges a frame that came in by `interface` and takes `memory` bytes. False where its share, or the room for `most_frames` and `most_memory`, is used up.
    pub(super) fn take(
        &mut self,
        interface: u16,
        memory: usize,
        most_frames: usize,
        most_memory: usize,
    ) -> bool {
        let share = &mut self.buckets[usize::from(interface) % BUCKETS];
        let free_frames = most_frames.saturating_sub(self.all_frames);
        let free_memory = most_memory.saturating_sub(self.all_memory);
        let fits = free_frames > 0
            && free_memory >= memory
            && (share.frames as usize) < ALPHA * free_frames
            && (share.memory as usize) < ALPHA * free_memory;
        if fits {
            share.frames += 1;
            share.memory += memory as u32;
            self.all_frames += 1;
            self.all_memory += memory;
        }
        fits
    }

    /// A frame has arrived.
    pub(super) fn give_back(&mut self, interface: u16, memory: usize) {
        let share = &mut self.buckets[usize::from(interface) % BUCKETS];
        share.frames -= 1;
        share.memory -= memory as u32;
        self.all_frames -= 1;
        self.all_memory -= memory;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_floods_leaves_room_for_another() {
        let mut shares = Shares::default();
        let hog = (0..5000).filter(|_| shares.take(1, 2048, 1024, 8 << 20)).count();
        assert!((900..=911).contains(&hog), "{hog} of 1024");
        let other = (0..50).filter(|_| shares.take(2, 2048, 1024, 8 << 20)).count();
        assert_eq!(other, 50);
        (0..hog).for_each(|_| shares.give_back(1, 2048));
        (0..other).for_each(|_| shares.give_back(2, 2048));
        assert_eq!((shares.frames(), shares.all_memory), (0, 0));
    }

    #[test]
    fn memory_is_shared_as_frames_are() {
        let mut shares = Shares::default();
        let large = (0..1000).filter(|_| shares.take(1, 66 << 10, 1024, 8 << 20)).count();
        assert!((100..120).contains(&large), "{large} super-frames");
        assert!(shares.take(2, 66 << 10, 1024, 8 << 20) && shares.take(2, 2048, 1024, 8 << 20));
    }
}
