//! What the tests share: network namespaces of their own, a graph that joins ports, packets in and out by hand.

#![allow(dead_code, reason = "each test uses its part")]

use graph::arc::{ArcPlace, Arcs};
use graph::engine::Graph;
use graph::handover::Station;
use graph::node::{NodeContext, NodeKind};
use graph::plan::Plan;
use graph::port::{Attachment, Completed, Quota, RxMode, RxPort, RxQueue, Sent, Stop, TxQueue};
use graph::publish::{Key, Publisher, Schema};
use graph::worker::{EventSender, Worker, WorkerOptions};
use graph::{Ctx, Frame, Node, NodeSpec};
use memory::packet::{OwnedPacket, Packets, SlotId};
use memory::region::{Region, RegionTable, SealPolicy};
use memory::simd::{Scalar, Tier};
use quiver_ports::{LinkState, Netns, Port};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::OwnedFd;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The reference tier.
pub const SCALAR: Tier = Tier::Scalar(Scalar);
/// Longest wait for something that has to happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of a packet, most of which stay where the sender put them.
pub const LOST_LEN: u32 = 1200;

/// A packet in memory that its sender can still take away, as nothing keeps them from with huge pages.
pub fn revocable(packets: &mut Packets) -> (OwnedFd, Arc<RegionTable>, SlotId) {
    let theirs = memfd_create("sender", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&theirs, 1 << 16).unwrap();
    let region = Region::map(theirs.try_clone().unwrap(), 1 << 16, SealPolicy::Allow).unwrap();
    let table = Arc::new(RegionTable::new(vec![Arc::new(region)]).unwrap());
    let range = table.check(0, 8192, LOST_LEN).unwrap();
    range.write(&[0x55; LOST_LEN as usize]);
    let mut burst = packets.burst(Scalar, Arc::clone(&table), 0);
    // SAFETY: the range is of the table that the burst was begun with.
    unsafe { burst.packet(range) }.unwrap();
    let slot = burst.finish().0.start as SlotId;
    (theirs, table, slot)
}

/// Whether tests that need root can run. Without root they are skipped, unless `QUIVER_REQUIRE_ROOT=1`.
pub fn root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    let required = std::env::var("QUIVER_REQUIRE_ROOT").is_ok_and(|value| value == "1");
    assert!(root || !required, "{test} needs root and QUIVER_REQUIRE_ROOT=1 demands that it runs");
    if !root {
        eprintln!("skipped: {test} makes network namespaces, which needs root");
    }
    root
}

/// A network namespace that ends with the test.
pub struct Namespace {
    pub name: String,
}

impl Namespace {
    pub fn new(tag: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("qvt-{}-{count}-{tag}", std::process::id());
        run(&["ip", "netns", "add", &name]);
        let namespace = Self { name };
        namespace.run(&["ip", "link", "set", "lo", "up"]);
        namespace
    }

    pub fn netns(&self) -> Netns {
        Netns::Named(self.name.clone())
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).args(args);
        command
    }

    /// Runs a command that must succeed and returns what it printed.
    pub fn run(&self, args: &[&str]) -> String {
        succeed(self.command(args).output().unwrap(), args)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

pub fn run(args: &[&str]) -> String {
    succeed(Command::new(args[0]).args(&args[1..]).output().unwrap(), args)
}

fn succeed(output: Output, args: &[&str]) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}: {out}{err}");
    out.into_owned()
}

/// Waits until the kernel has told that the link is so.
#[track_caller]
pub fn link_becomes(port: &Port, state: LinkState) {
    let end = Instant::now() + Duration::from_secs(60);
    while port.link.state() != state {
        assert!(Instant::now() < end, "the link is {:?}", port.link.state());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends one frame by hand.
pub fn send(queue: &mut dyn TxQueue, frame: &[u8]) -> Sent {
    let mut packets = Packets::new();
    let slot = packets.adopt(&OwnedPacket::new(0, frame.to_vec())).unwrap();
    let mut sent = queue.send(SCALAR, &mut packets, &[slot]).unwrap();
    queue.flush();
    if queue.completes() && sent.packets > 0 {
        sent = landed(queue);
    }
    sent
}

/// Waits for a queue that sends by itself, and returns what became of its packets.
pub fn landed(queue: &mut dyn TxQueue) -> Sent {
    let end = Instant::now() + PATIENCE;
    let mut all = Completed::default();
    while queue.outstanding() {
        assert!(Instant::now() < end, "packets are still on their way");
        let completed = queue.completed().unwrap();
        all.packets += completed.packets;
        all.bytes += completed.bytes;
        all.full += completed.full;
        all.refused += completed.refused;
        all.down += completed.down;
        std::thread::yield_now();
    }
    let stop = match all {
        Completed { down: 1.., .. } => Stop::Down,
        Completed { refused: 1.., .. } => Stop::Refused,
        _ => Stop::Full,
    };
    Sent { packets: all.packets as usize, bytes: all.bytes, stop }
}

/// Receives by hand until `wanted` says of a frame that it is the one.
pub fn receive(queue: &mut dyn RxQueue, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut packets = Packets::new();
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        for frame in receive_all(queue, &mut packets) {
            if wanted(&frame) {
                return frame;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the frame didn't come");
}

/// What a queue has now.
pub fn receive_all(queue: &mut dyn RxQueue, packets: &mut Packets) -> Vec<Vec<u8>> {
    let received = queue.receive(SCALAR, packets, 0, Quota::packets(256)).unwrap();
    let frames: Vec<_> =
        received.slots.clone().map(|slot| packets.own(slot as u16).frame().to_vec()).collect();
    assert_eq!(received.bytes, frames.iter().map(|frame| frame.len() as u64).sum::<u64>());
    queue.release();
    packets.end_round();
    frames
}

/// What has crossed a [`Joined`] pair.
#[derive(Debug, Default)]
pub struct Seen {
    pub packets: AtomicUsize,
    /// Longest packet, in bytes.
    pub longest: AtomicUsize,
    /// Super-frames.
    pub gso: AtomicUsize,
}

thread_local! {
    /// What the next graph built on this thread counts in.
    static SEEN: std::cell::RefCell<Arc<Seen>> = std::cell::RefCell::default();
}

/// Sends what comes in by interface 2n out by 2n + 1 and back, on the `interface-output` arc.
struct Cross {
    place: ArcPlace,
    arcs: Key<Arcs>,
    seen: Arc<Seen>,
}

impl Node for Cross {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let arcs = ctx.tables.get(self.arcs);
        for (slot, next) in frame.slots.iter().zip(frame.next.iter_mut()) {
            let meta = ctx.packets.meta_mut(*slot);
            meta.tx_if = meta.rx_if ^ 1;
            self.seen.packets.fetch_add(1, Ordering::Relaxed);
            self.seen.longest.fetch_max(meta.len() as usize, Ordering::Relaxed);
            self.seen
                .gso
                .fetch_add(usize::from(meta.offload.gso != memory::packet::Gso::None), Ordering::Relaxed);
            *next = self.place.begin(arcs, meta.tx_if, meta);
        }
    }
}

fn make_cross(cx: &NodeContext<'_>) -> Box<dyn Node> {
    let seen = SEEN.with_borrow(Arc::clone);
    Box::new(Cross { place: cx.arc("interface-output"), arcs: cx.table(), seen })
}

const CROSS: NodeSpec = NodeSpec {
    name: "cross",
    help: "Sends packets out by the neighbouring interface.",
    kind: NodeKind::Internal,
    edges: &["drop"],
    starts: &["interface-output"],
    ends: &["device-input"],
    make: make_cross,
    ..NodeSpec::EMPTY
};

/// One side of a join: a port, the names of its nodes, features on its output.
pub struct Side<'a> {
    pub port: &'a mut Port,
    pub input: &'static str,
    pub output: &'static str,
    pub features: &'static [&'static str],
    pub mode: RxMode,
}

impl<'a> Side<'a> {
    /// A side without features, polled and slept on as the worker sees fit.
    pub fn new(port: &'a mut Port, input: &'static str, output: &'static str) -> Self {
        Self { port, input, output, features: &[], mode: RxMode::Adaptive }
    }
}

/// A graph that carries packets between two ports.
pub struct Joined {
    pub graph: Graph,
    publisher: Publisher,
    pub seen: Arc<Seen>,
}

impl Joined {
    pub fn new(sides: [Side<'_>; 2]) -> Self {
        let specs: Vec<NodeSpec> = quiver_ports::NODES.iter().copied().chain([CROSS]).collect();
        let plan = Arc::new(Plan::resolve(&specs, &[], Schema::default()).unwrap());
        let mut publisher = Publisher::new(&plan.schema);
        let mut draft = publisher.draft();
        let key = plan.schema.key::<Arcs>().unwrap();
        draft.change(key, |arcs| {
            for (interface, side) in sides.iter().enumerate() {
                let input = plan.chain("device-input", &[], "cross").unwrap();
                arcs.set(plan.arc("device-input").unwrap(), interface as u16, &input).unwrap();
                let output = plan.chain("interface-output", side.features, side.output).unwrap();
                arcs.set(plan.arc("interface-output").unwrap(), interface as u16, &output).unwrap();
            }
        });
        publisher.publish(draft);
        let seen = Arc::new(Seen::default());
        SEEN.set(Arc::clone(&seen));
        let sender = EventSender::new(|event| panic!("{event:?}"));
        let mut graph = Graph::new(plan, Station::alone(), SCALAR, sender).unwrap();
        for (interface, side) in sides.into_iter().enumerate() {
            let interface = interface as u16;
            for (number, rx) in std::mem::take(&mut side.port.rx).into_iter().enumerate() {
                let port = RxPort::new(interface, number as u16, side.mode, rx);
                graph.queues(side.input).unwrap().add(port);
            }
            if let Some(queue) = side.port.tx.pop() {
                graph.ports.attach(interface, Attachment::default(), queue);
            }
        }
        Self { graph, publisher, seen }
    }

    /// The same on a worker's thread, which sleeps when there is nothing to do. The publisher has to live as long.
    pub fn into_worker(mut self) -> (Worker, Publisher) {
        let reader = self.publisher.reader();
        let worker = Worker::start(0, self.graph, reader, &WorkerOptions::default()).unwrap();
        (worker, self.publisher)
    }

    /// One round; returns the packets that came in.
    pub fn round(&mut self) -> usize {
        self.graph.round(self.publisher.current(), memory::clock::nanoseconds()).received
    }

    /// Carries packets while `work` runs on a thread of its own.
    pub fn while_running<R: Send>(&mut self, work: impl FnOnce() -> R + Send) -> R {
        let done = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                done.store(true, Ordering::Release);
                result
            });
            while !done.load(Ordering::Acquire) {
                if self.round() == 0 {
                    // The peers share these cores.
                    std::thread::yield_now();
                }
            }
            thread.join().unwrap()
        });
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Sends `bytes` bytes by TCP from namespace `b` to `address` in namespace `a`, and compares what arrives.
pub fn transfer(a: &Namespace, b: &Namespace, address: &str, bytes: usize) {
    const SERVER: &str = "import socket,sys,hashlib
f=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s=socket.socket(f); s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1); s.bind((sys.argv[1],7)); s.listen()
print('listening',flush=True)
s.settimeout(30); c,_=s.accept(); c.settimeout(30); h=hashlib.sha256(); n=0
while True:
    d=c.recv(1<<16)
    if not d: break
    h.update(d); n+=len(d)
print(n,h.hexdigest())";
    const CLIENT: &str = "import socket,sys,hashlib,random
f=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
d=random.Random(1).randbytes(int(sys.argv[2])); s=socket.socket(f); s.settimeout(30)
s.connect((sys.argv[1],7)); s.sendall(d); s.close()
print(len(d),hashlib.sha256(d).hexdigest())";
    use std::io::{BufRead, BufReader, Read};
    let mut server = a.command(&["/usr/bin/python3", "-c", SERVER, address]);
    let mut server = server.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "listening");
    let sent = b.run(&["/usr/bin/python3", "-c", CLIENT, address, &bytes.to_string()]);
    let mut got = String::new();
    output.read_to_string(&mut got).unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!(got, sent, "the bytes that arrived");
}

impl Joined {
    /// A declared counter of a node.
    pub fn counter(&self, node: &str, counter: &str) -> u64 {
        let plan = self.graph.plan();
        let node = plan.node(node).unwrap();
        let id = plan.counters.iter().position(|(of, spec)| *of == node && spec.name == counter).unwrap();
        self.graph.counters().node(id as u16).get()
    }

    /// Drops of a node for a reason.
    pub fn drops(&self, node: &str, reason: &str) -> u64 {
        let plan = self.graph.plan();
        let node = plan.node(node).unwrap();
        let id = plan.drops.iter().position(|(of, spec)| *of == node && spec.name == reason).unwrap();
        self.graph.counters().drops(id as u16).get()
    }
}
