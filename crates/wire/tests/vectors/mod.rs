//! The vectors that `make_vectors.py` makes.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, reason = "a broken vector must be seen")]

use quiver_wire::LinkType;

/// A packet scapy built, and what scapy reads in it.
pub struct Vector {
    pub name: &'static str,
    pub link: LinkType,
    pub bytes: Vec<u8>,
    /// `key=value`, in the order of the headers.
    pub fields: Vec<&'static str>,
}

/// All packets.
pub fn packets() -> Vec<Vector> {
    let lines = include_str!("packets.txt").lines();
    lines
        .map(|line| {
            let mut words = line.split(' ').filter(|word| !word.is_empty());
            let mut next = || words.next().unwrap();
            let (name, link, bytes) = (next(), LinkType(next().parse().unwrap()), hex(next()));
            Vector { name, link, bytes, fields: words.collect() }
        })
        .collect()
}

/// The bytes of one packet.
pub fn packet(name: &str) -> Vec<u8> {
    packets().into_iter().find(|vector| vector.name == name).expect(name).bytes
}

/// The bytes of one capture file.
pub fn capture(name: &str) -> Vec<u8> {
    let mut lines = include_str!("captures.txt").lines().map(|line| line.split_once(' ').unwrap());
    hex(lines.find(|(found, _)| *found == name).expect(name).1)
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
