//! What a faulty device does to packets is told, exactly, by kind.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Middle, STACK, interfaces, program, run, server, socket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const COUNT: u64 = 20_000;

/// What the device did.
#[derive(Default)]
struct Done {
    dropped: AtomicU64,
    doubled: AtomicU64,
    delayed: AtomicU64,
    flipped: AtomicU64,
    injected: AtomicU64,
}

impl Done {
    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does each of its faults to one packet in a hundred.
fn faulty(done: Arc<Done>) -> impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send {
    let (mut n, mut held, mut bit) = (0u64, None, 0);
    move |packet| {
        n += 1;
        let mut out = vec![packet.to_vec()];
        match n % 100 {
            7 => {
                Done::count(&done.dropped);
                out.clear();
            }
            17 => {
                Done::count(&done.doubled);
                out.push(packet.to_vec());
            }
            27 => {
                Done::count(&done.delayed);
                held = out.pop();
            }
            30 => out.extend(held.take()),
            37 => {
                Done::count(&done.flipped);
                // Anywhere in the payload but in the four bytes by which a signature and its stream are known.
                let len = packet.len();
                bit = (bit + 13) % ((len - 42 - 16) * 8 + 12 * 8);
                let byte = if bit / 8 < len - 42 - 16 { 42 + bit / 8 } else { bit / 8 + 42 + 4 };
                out[0][byte] ^= 1 << (bit % 8);
            }
            57 => {
                Done::count(&done.injected);
                out.push(vec![0xff; 60]);
            }
            _ => {}
        }
        out
    }
}

fn through_faults(check: &str, size: &str) -> (quiver_tgen::report::Report, Arc<Done>) {
    let (left, right, done) = (socket("left"), socket("right"), Arc::new(Done::default()));
    let _middle = Middle::new(&left, &right, faulty(Arc::clone(&done)));
    let report = run(&format!(
        "check = \"{check}\"\nseconds = 60\n{}[[stream]]\ntx = \"left\"\ncount = {COUNT}\nsize = {size}\nrate = 50000\n{STACK}",
        interfaces(&left, &right)
    ));
    (report, done)
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[test]
fn payload_checks_tell_all_faults_apart() {
    // In one line, at odd lengths, beyond a line, in several buffers.
    for size in ["64", "65", "300", "3001", "[64, 128, 1514]"] {
        let (report, done) = through_faults("payload", size);
        let (dropped, flipped) = (get(&done.dropped), get(&done.flipped));
        assert_eq!(report.sent, COUNT, "{size}");
        assert_eq!(report.corrupted, Some(flipped), "{size}");
        assert_eq!(report.lost, dropped + flipped, "{size}");
        assert_eq!(report.received, COUNT - dropped - flipped, "{size}");
        assert_eq!(report.duplicated, Some(get(&done.doubled)), "{size}");
        assert_eq!(report.reordered, Some(get(&done.delayed)), "{size}");
        assert_eq!(report.foreign, get(&done.injected), "{size}");
        assert_eq!(report.interfaces[1].foreign, get(&done.injected), "{size}");
        // Neither what comes twice nor strangers make up for bytes that are missing.
        assert_eq!(Some(report.received_bytes), report.streams[0].received_bytes, "{size}");
        if let Ok(size) = size.parse::<u64>() {
            assert_eq!(report.received_bytes, report.received * size, "{size}");
            let strangers = 60 * get(&done.injected);
            let others = size * (get(&done.doubled) + flipped) + strangers;
            assert_eq!(report.interfaces[1].received_bytes, report.received_bytes + others, "{size}");
        }
        assert!(dropped > 100 && flipped > 100, "the device did what it should");
    }
}

#[test]
fn counting_tells_what_is_missing() {
    let (report, done) = through_faults("count", "64");
    assert_eq!(report.foreign, get(&done.injected), "frames of another length");
    // A packet that comes twice makes up for one that is dropped: that's what signatures are for.
    assert_eq!(report.received, COUNT - get(&done.dropped) + get(&done.doubled));
    assert_eq!(report.received_bytes, 64 * report.received, "no bytes of strangers");
    let rate = 8.0 * report.received_bytes as f64 / report.seconds;
    assert!((report.received_bps / rate - 1.0).abs() < 1e-9);
    assert_eq!((report.duplicated, report.reordered, report.corrupted), (None, None, None));
    assert_eq!(report.streams[0].received, None);
}

#[test]
fn changed_headers_hide_nothing() {
    // As a router, a tunnel and a tagging bridge would: other headers, longer frames.
    let (left, right) = (socket("left"), socket("right"));
    let _middle = Middle::new(&left, &right, |packet: &[u8]| {
        let mut frame = vec![0x02; 54];
        frame.extend_from_slice(&packet[14..]);
        frame[54 + 8] -= 1;
        vec![frame]
    });
    let report = run(&format!(
        "check = \"payload\"\nseconds = 60\n{}[[stream]]\ntx = \"left\"\ncount = 5000\nsize = 64\nrate = 50000\n{STACK}",
        interfaces(&left, &right)
    ));
    assert_eq!((report.sent, report.received, report.foreign), (5000, 5000, 0));
    assert_eq!((report.corrupted, report.reordered), (Some(0), Some(0)));
}

#[test]
fn a_broken_mark_makes_a_packet_foreign_and_lost() {
    let (left, right) = (socket("left"), socket("right"));
    let mut n = 0;
    let _middle = Middle::new(&left, &right, move |packet: &[u8]| {
        n += 1;
        let mut frame = packet.to_vec();
        if n % 10 == 0 {
            let at = frame.len() - 16;
            frame[at] ^= 0x80;
        }
        vec![frame]
    });
    let report = run(&format!(
        "check = \"sequence\"\nseconds = 60\n{}[[stream]]\ntx = \"left\"\ncount = 5000\nsize = 64\nrate = 50000\n{STACK}",
        interfaces(&left, &right)
    ));
    assert_eq!((report.received, report.lost, report.foreign), (4500, 500, 500));
}

#[test]
fn a_slow_device_is_shared_by_all_streams() {
    // Its ring is always full: whoever always came first would take all of it.
    let (left, right) = (socket("left"), socket("right"));
    let _middle = Middle::new(&left, &right, |packet: &[u8]| {
        std::thread::sleep(std::time::Duration::from_micros(1));
        vec![packet.to_vec()]
    });
    let stream = |name: &str| format!("[[stream]]\nname = \"{name}\"\ntx = \"left\"\nsize = 64\n{STACK}");
    let streams = stream("a") + &stream("b") + &stream("c");
    let report =
        run(&format!("check = \"sequence\"\nseconds = 1\ndrain = 2\n{}{streams}", interfaces(&left, &right)));
    let sent: Vec<u64> = report.streams.iter().map(|stream| stream.sent).collect();
    assert!(sent.iter().min() > sent.iter().max().map(|most| most / 2).as_ref(), "{sent:?}");
    assert_eq!((report.lost, report.reordered), (0, Some(0)), "{report}");
}

/// What comes of a second at 50 000 packets a second through a device that stands still for 200 ms of it.
fn through_a_standstill(more: &str) -> quiver_tgen::report::Report {
    let (left, right) = (socket("left"), socket("right"));
    let mut n = 0;
    let _middle = Middle::new(&left, &right, move |packet: &[u8]| {
        n += 1;
        if n == 5_000 {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        vec![packet.to_vec()]
    });
    run(&format!(
        "check = \"sequence\"\nseconds = 1\ndrain = 2\n{more}{}[[stream]]\ntx = \"left\"\nsize = 64\nrate = 50000\n{STACK}",
        interfaces(&left, &right)
    ))
}

#[test]
fn a_standstill_is_seen_by_who_does_not_catch_up() {
    let report = through_a_standstill("max_late = 0.001\n");
    let (missed, overslept) = (report.missed.unwrap(), report.overslept.unwrap());
    // Of 10 000 packets a ring holds 1024.
    assert!(missed >= 5_000, "{report}");
    assert!(overslept <= missed, "{report}");
    assert_eq!(report.streams[0].missed, Some(missed));
    assert!(report.sent + missed <= report.intended.unwrap(), "{report}");
    assert_eq!((report.lost, report.duplicated, report.reordered), (0, Some(0), Some(0)), "{report}");
}

#[test]
fn who_catches_up_misses_nothing_and_sees_no_standstill() {
    let report = through_a_standstill("");
    assert_eq!((report.missed, report.overslept, report.lost), (None, None, 0), "{report}");
}

#[test]
fn packets_that_come_back_where_they_were_sent_are_lost() {
    for (check, signed) in [("count", false), ("sequence", true), ("payload", true)] {
        let (left, right) = (socket("left"), socket("right"));
        let _middle = Middle::back(&left, &right);
        let report = |rx: &str| {
            run(&format!(
                "check = \"{check}\"\nseconds = 60\ndrain = 5\n{}[[stream]]\ntx = \"left\"\n{rx}count = 2000\nsize = 64\nrate = 50000\n{STACK}",
                interfaces(&left, &right)
            ))
        };
        let wrong = report("");
        assert_eq!(
            (wrong.received, wrong.lost, wrong.misdirected, wrong.foreign),
            (0, 2000, 2000, 0),
            "{wrong}"
        );
        assert_eq!(wrong.streams[0].misdirected, signed.then_some(2000));
        let [left, right] = &wrong.interfaces[..] else { panic!("two interfaces") };
        assert_eq!((left.misdirected, left.received, right.received), (2000, 2000, 0), "{check}");
    }
}

#[test]
fn a_reflector_is_no_fault_where_it_is_asked_for() {
    let (left, right) = (socket("left"), socket("right"));
    let _middle = Middle::back(&left, &right);
    let report = run(&format!(
        "check = \"sequence\"\nseconds = 60\n{}[[stream]]\ntx = \"left\"\nrx = \"left\"\ncount = 2000\nsize = 64\nrate = 50000\n{STACK}",
        interfaces(&left, &right)
    ));
    assert_eq!((report.received, report.lost, report.misdirected), (2000, 0, 0), "{report}");
}

/// Two memif servers that are connected to and never look at what comes.
fn standing_still() -> (Vec<memif::app::Port>, [String; 2]) {
    let sockets = [socket("still"), socket("still")];
    (sockets.iter().map(|socket| server(socket)).collect(), sockets)
}

#[test]
fn a_device_that_takes_nothing_ends_a_replay() {
    let (mut ports, [left, right]) = standing_still();
    let output = std::thread::scope(|scope| {
        let generator = scope.spawn(|| {
            program(&[
                "replay",
                "--client-interface",
                &left,
                "--server-interface",
                &right,
                "--seconds",
                "3600",
            ])
        });
        while !generator.is_finished() {
            for port in &mut ports {
                // Lets it connect, and takes nothing.
                port.wait(Some(std::time::Duration::from_millis(5))).unwrap();
            }
        }
        generator.join().unwrap()
    });
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && words.contains("taken nothing for 5 s"), "{output:?}");
}

#[test]
fn a_packet_longer_than_the_ring_is_an_error_and_not_sent() {
    let output = program(&[
        "--loop",
        "--size",
        "9000",
        "--ring-size",
        "64",
        "--buffer-size",
        "128",
        "--seconds",
        "10",
    ]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && words.contains("longer than all buffers of the ring"), "{output:?}");
}

/// Runs a profile through a device that first gives back `stale`, and gives the result and the frames that the device saw.
fn after(stale: Vec<Vec<u8>>, check: &str, seed: &str) -> (quiver_tgen::report::Report, Vec<Vec<u8>>) {
    let (left, right) = (socket("left"), socket("right"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (copies, mut stale) = (Arc::clone(&seen), stale);
    let middle = Middle::new(&left, &right, move |packet: &[u8]| {
        copies.lock().unwrap().push(packet.to_vec());
        let mut out = std::mem::take(&mut stale);
        out.push(packet.to_vec());
        out
    });
    let report = run(&format!(
        "check = \"{check}\"\nseconds = 60\n{seed}{}[[stream]]\ntx = \"left\"\ncount = 2000\nsize = 64\nrate = 50000\n{STACK}",
        interfaces(&left, &right)
    ));
    drop(middle);
    (report, Arc::into_inner(seen).unwrap().into_inner().unwrap())
}

#[test]
fn packets_of_an_earlier_run_are_foreign() {
    for check in ["sequence", "payload"] {
        let (_, mut stale) = after(Vec::new(), check, "");
        stale.truncate(500);
        let (report, _) = after(stale, check, "");
        assert_eq!((report.received, report.lost, report.foreign), (2000, 0, 500), "{check}: {report}");
        assert_eq!((report.duplicated, report.reordered), (Some(0), Some(0)), "{check}: {report}");
    }
}

#[test]
fn runs_of_a_given_seed_send_the_same_bytes() {
    let [one, same, other] =
        ["seed = 1\n", "seed = 1\n", "seed = 2\n"].map(|seed| after(Vec::new(), "payload", seed));
    assert!(one.1.len() == 2000 && one.1 == same.1);
    assert_eq!(one.0.run, same.0.run);
    assert!(one.0.run != other.0.run && one.1 != other.1);
    assert!(one.1 != after(Vec::new(), "payload", "").1, "without a seed every run has its own number");
}
