//! Conversations are what state machines send, between any endpoints.

use super::conversation::{Conversation, Pair};
use super::run::{Plan, run};
use crate::link::{Link, MemifLink, MemifSpec};
use crate::stateful::packet::{Framing, Segment, Wire};
use crate::stateful::profile::{AnyEnds, Ends, Profile, Shape};
use crate::stateful::tcp::Role;
use crate::stateless::Progress;
use std::sync::atomic::AtomicBool;
use wire::MacAddr;

fn ends(profile: &Profile) -> Ends {
    let AnyEnds::V4(ends) = profile.ends else { panic!("IPv4 is the default") };
    ends
}

fn made(profile: &Profile) -> Conversation {
    Conversation::made(profile, &ends(profile))
}

fn framing() -> Framing {
    Framing::ethernet::<u32>(MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1]), 9000)
}

#[test]
fn conversations_are_csits_cases() {
    for (name, client, server) in
        [("tcp-cps", 4, 3), ("udp-cps", 1, 1), ("tcp-tput", 8, 8), ("udp-tput", 5, 5)]
    {
        let conversation = made(&Profile::load(name, Shape::default()).unwrap());
        assert_eq!(
            (conversation.steps_of(Role::Client), conversation.steps_of(Role::Server)),
            (client, server),
            "{name}"
        );
    }
}

#[test]
fn checksums_fit_all_endpoints() {
    let sizes = [(1, 0xffff), (64, 65), (100, 1460), (1461, 3001)];
    for (request, response) in sizes {
        for name in ["tcp-tput", "udp-tput"] {
            let size = |n: u32| Some(n.clamp(16, 8000));
            let shape = Shape { request: size(request), response: size(response), ..Shape::default() };
            let conversation = made(&Profile::load(name, shape).unwrap());
            for n in 0..100u32 {
                let pair =
                    Pair::new((n.wrapping_mul(0x9e37_79b9), (n * 7) as u16), (!n << 3, (n * 31) as u16));
                let pair = pair.behind(n.wrapping_mul(0x85eb_ca6b));
                assert!(conversation.is_right(&framing(), &pair), "{name}, {pair:?}");
            }
        }
    }
}

#[test]
fn a_step_goes_between_its_endpoints() {
    let conversation = made(&Profile::load("tcp-cps", Shape::default()).unwrap());
    let pair = Pair::new((0x0a00_0001, 5000), (0x0b00_0001, 80));
    let read = |n: usize| Segment::<u32>::read(&conversation.steps[n].line(&framing(), &pair), 64).unwrap();
    let (syn, syn_ack) = (read(0), read(1));
    assert_eq!((syn.src, syn.src_port, syn.dst, syn.dst_port), (0x0a00_0001, 5000, 0x0b00_0001, 80));
    assert_eq!(
        (syn_ack.src, syn_ack.src_port, syn_ack.dst, syn_ack.dst_port),
        (0x0b00_0001, 80, 0x0a00_0001, 5000)
    );
    assert_eq!(syn_ack.ack, syn.seq.wrapping_add(1));
    assert_eq!((syn.mss, syn_ack.mss), (1460, 1460));
}

#[test]
fn sequence_numbers_of_both_ends_move_together() {
    let shape = Shape { request: Some(100), response: Some(3001), ..Shape::default() };
    let conversation = made(&Profile::load("tcp-tput", shape).unwrap());
    let read = |pair: Pair| -> Vec<Segment<u32>> {
        let line = |n: usize| conversation.steps[n].line(&framing(), &pair);
        let len = |n: usize| conversation.steps[n].len();
        (0..conversation.steps.len()).map(|n| Segment::read(&line(n), len(n)).unwrap()).collect()
    };
    let pair = Pair::new((0x0a00_0001, 5000), (0x0b00_0001, 80));
    for by in [1, 0xffff, 0x1_0000, 0xffff_0001] {
        for (n, (first, moved)) in read(pair).into_iter().zip(read(pair.behind(by))).enumerate() {
            assert_eq!(moved.seq, first.seq.wrapping_add(by), "step {n}");
            let ack = if n == 0 { 0 } else { first.ack.wrapping_add(by) }; // A SYN acknowledges nothing.
            assert_eq!((moved.ack, moved.flags, moved.len), (ack, first.flags, first.len), "step {n}");
        }
    }
    // What the other end acknowledges last, but for the first number: what both have used.
    let steps = read(pair);
    let of = |port: u16| steps.iter().filter(move |step| step.src_port == port);
    let used = |from: u16, to: u16| {
        of(to).filter(|s| s.ack != 0).map(|s| s.ack).max().unwrap().wrapping_sub(of(from).next().unwrap().seq)
    };
    assert_eq!(conversation.numbers, used(5000, 80).max(used(80, 5000)));
    assert!(conversation.numbers > 3001);
}

#[test]
fn all_steps_come_through_a_loop() {
    let profile = Profile::load("tcp-tput", Shape::default()).unwrap();
    let (a, b) = MemifLink::pair(&MemifSpec::buffers(1, 256, 2048)).unwrap();
    let (mut a, mut b) = (Link::Memif(Box::new(a)), Link::Memif(Box::new(b)));
    let plan = Plan {
        conversation: made(&profile),
        clients: ends(&profile).clients,
        servers: ends(&profile).servers,
        rate: 0.0,
        conversations: 1000,
        seconds: 60.0,
        drain: 10.0,
        apart: 4,
    };
    let outcome =
        run(&plan, (&mut a, &mut b), (&framing(), &framing()), &AtomicBool::new(false), &Progress::default());
    assert!(outcome.lost.is_none() && !outcome.stopped);
    assert_eq!((outcome.conversations, outcome.other, outcome.steps.len()), (1000, 0, 16));
    for step in outcome.steps {
        assert_eq!((step.sent, step.received), (1000, 1000));
    }
}
