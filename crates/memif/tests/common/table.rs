//! The table of byte vectors, as its head describes it.

use std::collections::HashMap;
use std::path::Path;

/// A message, or bytes that are none.
#[derive(Debug)]
pub struct Vector {
    pub name: String,
    /// Its type's name; of bytes that are no message, the phrase of the error.
    pub kind: String,
    pub fields: HashMap<String, String>,
    pub bytes: Vec<u8>,
}

/// A line's words after the keyword, and the lines that belong to it.
#[derive(Debug)]
pub struct Entry {
    pub words: Vec<String>,
    pub lines: Vec<Vec<String>>,
}

#[derive(Debug, Default)]
pub struct Table {
    pub constants: HashMap<String, u64>,
    pub descriptors: Vec<Vec<String>>,
    pub messages: Vec<Vector>,
    pub rejects: Vec<Vector>,
    pub handshakes: Vec<Entry>,
    pub receives: Vec<Entry>,
    pub transmits: Vec<Entry>,
}

pub fn number(text: &str) -> u64 {
    let digits = text.strip_prefix("0x");
    digits.map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16)).unwrap()
}

pub fn phrase(word: &str) -> String {
    word.replace('-', " ")
}

pub fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap()).collect()
}

impl Entry {
    /// Whether the client has one large ring instead of two.
    pub fn is_large(&self) -> bool {
        self.words.last().is_some_and(|word| word == "large")
    }
}

impl Table {
    pub fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/memif/memif-2.0.txt");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut table = Self::default();
        let (mut rejecting, mut section) = (false, String::new());
        for line in text.lines() {
            let line = line.split('#').next().unwrap();
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let Some(keyword) = words.first() else { continue };
            match keyword.as_str() {
                "constant" => {
                    table.constants.insert(words[1].clone(), number(&words[2]));
                }
                "descriptor" => table.descriptors.push(words[1..].to_vec()),
                "message" => {
                    rejecting = false;
                    let fields = words[4..].iter().map(|word| word.split_once('=').unwrap());
                    table.messages.push(Vector {
                        name: words[1].clone(),
                        kind: words[2].clone(),
                        fields: fields.map(|(field, value)| (field.into(), value.into())).collect(),
                        bytes: vec![0; 128],
                    });
                }
                "reject" => {
                    rejecting = true;
                    table.rejects.push(Vector {
                        name: words[1].clone(),
                        kind: phrase(&words[3]),
                        fields: HashMap::new(),
                        bytes: vec![0; number(&words[2]) as usize],
                    });
                }
                "bytes" => {
                    let vectors = if rejecting { &mut table.rejects } else { &mut table.messages };
                    let (at, bytes) = (number(&words[1]) as usize, hex(&words[2..].concat()));
                    vectors.last_mut().unwrap().bytes[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                "handshake" | "receive" | "transmit" => {
                    section.clone_from(keyword);
                    table.section(&section).push(Entry { words: words[1..].to_vec(), lines: Vec::new() });
                }
                "send" | "hear" | "slot" | "slots" | "head" | "packets" | "fault" | "sent" => {
                    table.section(&section).last_mut().unwrap().lines.push(words);
                }
                other => panic!("unknown keyword {other} in the table"),
            }
        }
        assert!(!table.handshakes.is_empty() && !table.receives.is_empty() && !table.transmits.is_empty());
        table
    }

    fn section(&mut self, keyword: &str) -> &mut Vec<Entry> {
        match keyword {
            "handshake" => &mut self.handshakes,
            "receive" => &mut self.receives,
            _ => &mut self.transmits,
        }
    }

    /// The bytes of a message by its name.
    pub fn message(&self, name: &str) -> Vec<u8> {
        self.messages.iter().find(|vector| vector.name == name).unwrap().bytes.clone()
    }
}
