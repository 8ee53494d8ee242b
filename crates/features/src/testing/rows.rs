//! Tables of packets as text, as a generator on an independent tool writes them.

use super::table::{Row, Verdict, hex};
use graph::port::IfIndex;

/// Reads a table. A row is a block of lines; `#` begins a comment line:
///
/// ```text
/// row a name with spaces
/// in 1 0200000000010200...       interface and frame
/// out 2 0200000000020200...      what comes out, in order
/// drop ip4-input bad-checksum    or: dropped by that node for that reason (behind `out` lines: as well)
/// punt ip4-local                 or: punted under that kind (behind `out` lines: as well)
/// ```
///
/// # Panics
/// If a line is of another form.
#[must_use]
pub fn rows(text: &'static str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((word, rest)) = line.split_once(' ') else { panic!("{line:?} has one word") };
        if word == "row" {
            rows.push(Row { name: rest, rx_if: 0, frame: Vec::new(), verdict: Verdict::Sent(Vec::new()) });
            continue;
        }
        let Some(row) = rows.last_mut() else { panic!("{line:?} stands before the first row") };
        match (word, &mut row.verdict) {
            ("in", _) => (row.rx_if, row.frame) = frame(rest),
            ("out", Verdict::Sent(frames)) => frames.push(frame(rest)),
            ("punt", verdict @ Verdict::Sent(_)) if *verdict != Verdict::Sent(Vec::new()) => {
                let Verdict::Sent(frames) = core::mem::replace(verdict, Verdict::Dropped("")) else {
                    continue;
                };
                *verdict = Verdict::SentAndPunted(frames, rest);
            }
            ("drop", verdict @ Verdict::Sent(_)) if *verdict != Verdict::Sent(Vec::new()) => {
                let Verdict::Sent(frames) = core::mem::replace(verdict, Verdict::Dropped("")) else {
                    continue;
                };
                *verdict = Verdict::SentAndDropped(frames, rest);
            }
            ("drop", verdict) => *verdict = Verdict::Dropped(rest),
            ("punt", verdict) => *verdict = Verdict::Punted(rest),
            _ => panic!("{line:?} in row {:?}", row.name),
        }
    }
    for row in &rows {
        let nothing = row.frame.is_empty() || row.verdict == Verdict::Sent(Vec::new());
        assert!(!nothing, "row {:?} has no frame or no verdict", row.name);
    }
    rows
}

fn frame(text: &str) -> (IfIndex, Vec<u8>) {
    match text.split_once(' ').map(|(interface, digits)| (interface.parse(), digits)) {
        Some((Ok(interface), digits)) => (interface, hex(digits)),
        _ => panic!("{text:?} is not `interface hex`"),
    }
}
