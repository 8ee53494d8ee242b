//! Other processes, each an origin of its own, that send what can't be closed.

use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use memif::control::{AddRegion, Init, Message, VERSION};
use rustix::pipe::pipe;

use crate::lingering::{close, unclosable};
use crate::raw::{self, Raw};
use crate::server::{INTERFACES, Server};

/// What another process does.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    /// One connection, one message with so many descriptors, the first of which can't be closed.
    Message(usize),
    /// That, and then connections without any.
    Again(usize),
    /// That, and then as many connections as there are interfaces, with a message of 20 descriptors each.
    Many,
    /// One descriptor that can't be closed, then connections all the time, with messages that nobody waits for to be read.
    Blind,
    /// So many regions as they should be, and one that can't be closed.
    Regions(usize),
    /// All the time connections that another process makes, which ends, with 40 descriptors each, the first of which can't be closed.
    Gone,
}

/// Another process, that goes when this does.
///
/// It inherits what this one has open at that moment, and what of it can't be closed holds up its `execve`: so all are started before the
/// first of them [begins](Other::begin).
pub struct Other(Child);

impl Other {
    /// One that waits until it may begin.
    pub fn waiting(server: &Server, act: Act) -> Self {
        let act = match act {
            Act::Message(count) => format!("message {count}"),
            Act::Again(count) => format!("again {count}"),
            Act::Many => "many".into(),
            Act::Regions(count) => format!("regions {count}"),
            Act::Blind => "blind".into(),
            Act::Gone => "gone".into(),
        };
        let mut command = match act.as_str() {
            // In a container.
            "gone" => {
                let mut unshare = Command::new("unshare");
                unshare.args(["--pid", "--fork", "--kill-child"]).arg(std::env::current_exe().unwrap());
                unshare
            }
            _ => Command::new(std::env::current_exe().unwrap()),
        };
        let child = command
            .args(["peers::hostile_peer_for_the_others", "--exact", "--nocapture"])
            .env("QUIVER_TEST_PEER", format!("{} {act}", server.name))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    /// Where no other is started afterwards.
    pub fn new(server: &Server, act: Act) -> Self {
        let mut other = Self::waiting(server, act);
        other.begin();
        other
    }

    /// Lets it.
    pub fn begin(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// INIT for that interface.
pub fn init(id: u32) -> Vec<u8> {
    Message::Init(Init { version: VERSION, id, mode: 0, secret: None, name: "raw".into() }).encode().to_vec()
}

/// Waits until the server has said so many messages, or why it won't.
fn hear(raw: &Raw, count: usize) -> Vec<Message> {
    let mut heard = Vec::new();
    while heard.len() < count && !heard.iter().any(|message| matches!(message, Message::Disconnect { .. })) {
        heard.extend(raw.hear());
        std::thread::sleep(Duration::from_millis(1));
    }
    heard
}

/// Not a test of its own: what the others' peers do.
#[test]
fn hostile_peer_for_the_others() {
    let Ok(what) = std::env::var("QUIVER_TEST_PEER") else { return };
    let (name, act) = what.split_once(' ').unwrap();
    let _ = std::io::stdin().read_line(&mut String::new());
    let (_end, sent) = pipe().unwrap();
    let (bad, unread) = unclosable();
    let add = |index| Message::AddRegion(AddRegion { index, size: raw::REGION }).encode();
    let message = |raw: &Raw, bad: &OwnedFd, count: usize| {
        let fds = std::iter::once(bad).chain(std::iter::repeat_n(&sent, count - 1));
        raw.send(&add(0), &fds.map(AsFd::as_fd).collect::<Vec<_>>());
    };
    if act == "gone" {
        for id in 0.. {
            let raw = Raw::connect_by_another(name);
            if matches!(hear(&raw, 1)[..], [Message::Disconnect { .. }]) {
                continue;
            }
            raw.send(&init(id % INTERFACES), &[]);
            hear(&raw, 1);
            message(&raw, &bad, 40);
            hear(&raw, 1);
        }
    }
    let first = Raw::connect(name);
    hear(&first, 1);
    first.send(&init(0), &[]);
    hear(&first, 1);
    let (act, count) = act.split_once(' ').unwrap_or((act, "1"));
    let count: u16 = count.parse().unwrap();
    if act == "regions" {
        (0..count).for_each(|index| first.send(&add(index), &[first.region.fd()]));
        hear(&first, count.into());
        first.send(&add(count), &[bad.as_fd()]);
    } else {
        message(&first, &bad, count.into());
    }
    close(bad);
    hear(&first, 1);
    let mut connected = Vec::new();
    match act {
        "many" => {
            for id in 0..INTERFACES {
                let raw = Raw::connect(name);
                hear(&raw, 1);
                raw.send(&init(id), &[]);
                hear(&raw, 1);
                connected.push(raw);
            }
            for raw in &connected {
                message(raw, &sent, 20);
            }
        }
        "blind" => loop {
            let raw = Raw::connect(name);
            raw.send(&init(0), &[]);
            message(&raw, &sent, 20);
        },
        "again" => loop {
            hear(&Raw::connect(name), 1);
            std::thread::sleep(Duration::from_millis(20));
        },
        _ => {}
    }
    // Until it is ended.
    let _ = std::io::stdin().read_line(&mut String::new());
    drop((connected, unread));
}
