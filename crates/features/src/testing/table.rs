//! Tables of packets.

use super::bench::Bench;
use graph::NodeSpec;
use graph::port::IfIndex;
use graph::simd::Tier;
use std::collections::BTreeMap;

/// What is expected of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These frames come out, in this order, by these interfaces.
    Sent(Vec<(IfIndex, Vec<u8>)>),
    /// It is dropped: `node reason`, as `show drops` prints it.
    Dropped(&'static str),
    /// It goes to the control thread under this kind.
    Punted(&'static str),
    /// These frames come out, and the control thread is told under this kind as well.
    SentAndPunted(Vec<(IfIndex, Vec<u8>)>, &'static str),
    /// It is dropped, and these frames come out: its sender is told.
    SentAndDropped(Vec<(IfIndex, Vec<u8>)>, &'static str),
}

/// A row: one frame in, its verdict.
#[derive(Clone, Debug)]
pub struct Row {
    /// What the row is about.
    pub name: &'static str,
    /// Interface that the frame comes in by.
    pub rx_if: IfIndex,
    /// The frame.
    pub frame: Vec<u8>,
    /// What is expected.
    pub verdict: Verdict,
}

/// Runs every row through every tier, alone and 256 times in one vector. `setup` makes the graph's configuration.
///
/// # Panics
/// If a verdict differs, naming row, tier and vector size.
pub fn run_table(rows: &[Row], setup: impl Fn(&mut Bench)) {
    run(rows, Bench::new, setup);
}

/// [`run_table`] on a graph of these nodes.
///
/// # Panics
/// As [`run_table`].
pub fn run_table_on(nodes: &[NodeSpec], rows: &[Row], setup: impl Fn(&mut Bench)) {
    run(rows, |tier| Bench::with_nodes(tier, nodes), setup);
}

fn run(rows: &[Row], bench: impl Fn(Tier) -> Bench, setup: impl Fn(&mut Bench)) {
    for tier in Tier::available() {
        for count in [1, 256] {
            for row in rows {
                let mut bench = bench(tier);
                setup(&mut bench);
                let outcome = bench.run(row.rx_if, &vec![row.frame.clone(); count], count);
                let place = format!("row {:?}, tier {}, vector of {count}", row.name, tier.name());
                match &row.verdict {
                    Verdict::Sent(expected)
                    | Verdict::SentAndPunted(expected, _)
                    | Verdict::SentAndDropped(expected, _) => {
                        let punts = match row.verdict {
                            Verdict::SentAndPunted(_, kind) => vec![kind; count],
                            _ => Vec::new(),
                        };
                        assert_eq!(outcome.punts, punts, "{place}: told the control thread");
                        let drops = match row.verdict {
                            Verdict::SentAndDropped(_, reason) => [(reason.to_string(), count as u64)].into(),
                            _ => BTreeMap::new(),
                        };
                        assert_eq!(outcome.drops, drops, "{place}: dropped");
                        for (tx_if, _) in expected {
                            let want: Vec<_> =
                                expected.iter().filter(|e| e.0 == *tx_if).map(|e| &e.1).collect();
                            let got = outcome.sent.get(tx_if).map_or(&[][..], |frames| frames);
                            assert_eq!(got.len(), want.len() * count, "{place}: frames by interface {tx_if}");
                            for (at, frame) in got.iter().enumerate() {
                                let want = want[at % want.len()];
                                assert!(
                                    frame == want,
                                    "{place}: frame {at}\n got  {frame:02x?}\n want {want:02x?}"
                                );
                            }
                        }
                        let others =
                            outcome.sent.keys().filter(|i| !expected.iter().any(|e| e.0 == **i)).count();
                        assert_eq!(
                            others,
                            0,
                            "{place}: frames came out elsewhere: {:?}",
                            outcome.sent.keys()
                        );
                    }
                    Verdict::Dropped(reason) => {
                        assert!(outcome.sent.is_empty(), "{place}: sent {:02x?}", outcome.sent);
                        let want = [((*reason).to_string(), count as u64)].into();
                        assert_eq!(outcome.drops, want, "{place}");
                    }
                    Verdict::Punted(kind) => {
                        assert!(outcome.sent.is_empty(), "{place}: sent {:02x?}", outcome.sent);
                        assert_eq!(outcome.punts, vec![*kind; count], "{place}: drops {:?}", outcome.drops);
                    }
                }
            }
        }
    }
}

/// Bytes from hexadecimal digits; spaces and line ends don't count.
///
/// # Panics
/// If it has other characters or an odd number of digits.
#[must_use]
pub fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let value =
        |b: u8| (b as char).to_digit(16).map_or_else(|| panic!("{:?} is no digit", b as char), |v| v as u8);
    assert_eq!(digits.len() % 2, 0, "an odd number of digits");
    digits.chunks(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}
