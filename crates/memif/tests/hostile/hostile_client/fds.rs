//! Descriptors that nobody asked for.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::peer::MEMORY;
use crate::arena::Arena;
use crate::wire::{PATIENCE, receive};

/// Far more than are closed at a time, and not one of them is kept: the pipe ends, which it doesn't while anybody holds its other end.
#[test]
fn fds_by_the_hundred_are_all_closed() {
    let arena = Arena::new("leak", |_| ());
    let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let peers: Vec<_> = (0..60)
        .map(|_| {
            let peer = arena.peer();
            // Before it is accepted no descriptors can be sent to it while others of its origin aren't closed: nothing would be.
            let _ = receive(&peer.socket);
            peer.init();
            peer.region_with(0, MEMORY, &[write_end.as_fd(); 8]);
            peer
        })
        .collect();
    arena.shared.wait("all are turned away", |log| (log.count() >= 60).then_some(()));
    drop((peers, write_end));
    let ended = &mut [PollFd::new(&read_end, PollFlags::IN)];
    let patience = Timespec::try_from(PATIENCE).unwrap();
    assert_eq!(poll(ended, Some(&patience)).unwrap(), 1, "some are still open");
    arena.finish();
}
