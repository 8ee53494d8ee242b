//! A dataplane of two interfaces that does nothing but send what comes in by one out by the other, and sleeps as quiverd's workers do.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use memif::app::Batch;
use memif::ring::{Armed, DoorbellSettings, Signals};
use memif::{Address, Connection, Listener, ListenerSettings, ServerConfig, ServerEvent};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// As quiverd's workers.
const QUIET: Duration = Duration::from_micros(100);
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Starts one; gives its socket.
pub fn start(how: &str, cpu: &str) -> Result<String, Box<dyn Error>> {
    let (cpu, all) = (cpu.parse::<usize>()?, sched_getaffinity(None)?);
    let cpus = (0..CpuSet::MAX_CPU).filter(|other| all.is_set(*other) && *other != cpu).collect();
    let signals = match how {
        "direct" => Signals::Direct,
        "doorbell" => Signals::Doorbell(DoorbellSettings { cpus }),
        _ => return Err("direct or doorbell".into()),
    };
    let name = format!("wake-{}", std::process::id());
    let mut listener = Listener::bind(&Address::abstract_name(&name), ListenerSettings::default())?;
    for id in 0..2 {
        listener.register(id, ServerConfig { signals: signals.clone(), ..ServerConfig::default() })?;
    }
    let (links, news) = channel();
    std::thread::Builder::new().name("control".into()).spawn(move || control(listener, &links))?;
    std::thread::Builder::new().name("worker".into()).spawn(move || {
        let mut set = CpuSet::new();
        set.set(cpu);
        let _ = sched_setaffinity(None, &set);
        let mut worker = Worker { links: BTreeMap::new(), batch: Batch::new(256) };
        while worker.links.len() < 2 {
            let Ok(link) = news.recv() else { return };
            worker.links.insert(link.id, link);
        }
        if let Err(error) = worker.run() {
            eprintln!("wake: {error}");
        }
    })?;
    Ok(format!("@{name}"))
}

fn control(mut listener: Listener, links: &Sender<Connection>) {
    loop {
        for event in listener.process(Instant::now()).into_iter().flatten() {
            if let ServerEvent::Connected(link) = event {
                let _ = links.send(link);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Worker {
    links: BTreeMap<u32, Connection>,
    batch: Batch,
}

impl Worker {
    fn run(&mut self) -> Result<(), Box<dyn Error>> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for queue in self.links.values().flat_map(|link| &link.rx) {
            epoll::add(&set, queue.event().fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        let (mut quiet_since, mut events) = (Instant::now(), Vec::with_capacity(8));
        loop {
            if self.round()? {
                quiet_since = Instant::now();
            }
            if quiet_since.elapsed() < QUIET {
                continue;
            }
            let mut queues = self.links.values_mut().flat_map(|link| &mut link.rx);
            if queues.all(|queue| queue.arm() == Ok(Armed::Sleep)) {
                events.clear();
                let _ = epoll::wait(&set, spare_capacity(&mut events), Some(&NAP));
                // What has come is on its way before anything else.
                self.round()?;
                quiet_since = Instant::now();
            }
            for queue in self.links.values_mut().flat_map(|link| &mut link.rx) {
                queue.disarm();
                queue.take_signal();
            }
        }
    }

    fn round(&mut self) -> Result<bool, Box<dyn Error>> {
        let mut any = false;
        for from in [0, 1] {
            self.batch.clear();
            let Some(link) = self.links.get_mut(&from) else { continue };
            for queue in &mut link.rx {
                queue.recv_batch(&mut self.batch)?;
            }
            let packets: Vec<_> = self.batch.packets().collect();
            if let Some(to) = self.links.get_mut(&(1 - from))
                && !packets.is_empty()
            {
                any = true;
                to.tx[0].send_batch(&packets)?;
            }
        }
        Ok(any)
    }
}
