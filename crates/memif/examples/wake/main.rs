//! How long a sleeping memif peer takes to be woken, one way, through a dataplane that connects two interfaces.
//!
//! ```text
//! cargo run --release -p memif --example wake -- @a 0 @b 0 20000 1000    # two clients of quiverd (a cross-connect), packets, microseconds apart
//! cargo run --release -p memif --example wake -- doorbell 1 20000 1000   # a dataplane of its own on CPU 1, with doorbell threads on the others
//! cargo run --release -p memif --example wake -- direct 1 20000 1000     # the same, whose queues signal themselves
//! ```
//! One thread sends a packet and sleeps until the other one, which sleeps as well, has sent it back. Prints the time of each way from the
//! sender's call to the receiver's return from `wait`: `there` and `back`. With a pause longer than a worker waits before it sleeps
//! (0.1 ms), `there` begins with the worker asleep.

#[path = "../common/mod.rs"]
mod common;
mod dataplane;

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memif::Mode;
use memif::app::{Batch, Port};

const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
/// How long a packet may take before it is counted as lost.
const PATIENCE: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let run = match &words[..] {
        [a, a_id, b, b_id, count, pause] => measure([a, a_id], [b, b_id], count, pause),
        [how, cpu, count, pause] => dataplane::start(how, cpu)
            .and_then(|socket| measure([&socket, "0"], [&socket, "1"], count, pause)),
        _ => Err(format!(
            "usage: wake ADDRESS ID ADDRESS ID COUNT PAUSE | direct|doorbell CPU COUNT PAUSE   ({})",
            common::PORT
        )
        .into()),
    };
    if let Err(error) = &run {
        eprintln!("wake: {error}");
    }
    if run.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn open([address, id]: [&str; 2]) -> Result<Port, Box<dyn Error>> {
    let opened = common::open("wake", Mode::Ethernet, ["client", address, id]);
    let mut port = opened.ok_or("bad address or id")??;
    let begun = Instant::now();
    while port.connection().is_none() {
        let _ = port.wait(Some(Duration::from_millis(100)))?;
        if begun.elapsed() > Duration::from_secs(10) {
            return Err(format!("{} isn't connected", port.name()).into());
        }
    }
    Ok(port)
}

/// When the next packet was sent, and when it was received; `None` if none comes in time.
fn next(port: &mut Port, batch: &mut Batch, begin: Instant) -> Result<Option<(u64, u64)>, Box<dyn Error>> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let _ = port.wait(Some(PATIENCE))?;
        let now = begin.elapsed().as_nanos() as u64;
        port.receive(batch)?;
        let time = |packet: &[u8]| Some(u64::from_le_bytes(packet.get(14..22)?.try_into().ok()?));
        let ours = |packet: &&[u8]| packet.get(12..14) == Some(&ETHERNET[12..]);
        if let Some(sent) = batch.packets().filter(ours).filter_map(time).last() {
            return Ok(Some((sent, now)));
        }
    }
    Ok(None)
}

fn send(port: &mut Port, begin: Instant) -> Result<(), Box<dyn Error>> {
    let mut frame = [0; 60];
    frame[..14].copy_from_slice(&ETHERNET);
    frame[14..22].copy_from_slice(&(begin.elapsed().as_nanos() as u64).to_le_bytes());
    port.send(&[frame])?;
    Ok(())
}

fn measure(a: [&str; 2], b: [&str; 2], count: &str, pause: &str) -> Result<(), Box<dyn Error>> {
    let (count, pause): (usize, _) = (count.parse()?, Duration::from_micros(pause.parse()?));
    let (mut a, mut b, begin) = (open(a)?, open(b)?, Instant::now());
    let stop = AtomicBool::new(false);
    let (mut back, mut lost) = (Vec::with_capacity(count), 0);
    let there = std::thread::scope(|scope| {
        let answers = scope.spawn(|| {
            let (mut times, mut batch) = (Vec::with_capacity(count), Batch::new(16));
            while !stop.load(Ordering::Relaxed) {
                if let Ok(Some((sent, now))) = next(&mut b, &mut batch, begin) {
                    times.push(now - sent);
                    let _ = send(&mut b, begin);
                }
            }
            times
        });
        let mut batch = Batch::new(16);
        let done = (0..count).try_for_each(|_| {
            std::thread::sleep(pause);
            send(&mut a, begin)?;
            match next(&mut a, &mut batch, begin)? {
                Some((sent, now)) => back.push(now - sent),
                None => lost += 1,
            }
            Ok::<_, Box<dyn Error>>(())
        });
        stop.store(true, Ordering::Relaxed);
        done.map(|()| answers.join().unwrap_or_default())
    })?;
    for (what, mut times) in [("there", there), ("back", back)] {
        times.sort_unstable();
        let at = |share: f64| {
            times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default() as f64 / 1e3
        };
        let (half, most, nearly_all) = (at(0.5), at(0.9), at(0.99));
        println!(
            "{what:>5}: p50 {half:.1} us, p90 {most:.1} us, p99 {nearly_all:.1} us, {} packets",
            times.len()
        );
    }
    println!(" lost: {lost}");
    Ok(())
}
