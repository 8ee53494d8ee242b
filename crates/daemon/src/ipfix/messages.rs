//! Messages (RFC 7011 section 3).

use super::{Record, Template};

/// Bytes of a message at most: with headers of UDP and IPv6 it fits every way (RFC 8200 section 5).
pub const MESSAGE: usize = 1280 - 40 - 8;

const VERSION: u16 = 10;
const HEADER: usize = 16;
/// Ids of sets of templates, and of templates of options.
const TEMPLATES: u16 = 2;
const OPTIONS_TEMPLATES: u16 = 3;
/// What is told of the exporter itself: its id, and that of its options.
const RELIABILITY: u16 = 261;

/// Messages to one collector about one observation domain. Over UDP, templates are sent again and again.
#[derive(Debug)]
pub struct Messages {
    domain: u32,
    /// Data records so far, those of the message that is being written left out; it wraps.
    sequence: u32,
    message: Vec<u8>,
    /// Data records in it.
    records: u32,
    /// Id of the set that is being written, and where it begins.
    set: Option<(u16, usize)>,
}

impl Messages {
    /// None yet, of that observation domain.
    #[must_use]
    pub fn new(domain: u32) -> Self {
        let mut messages =
            Self { domain, sequence: 0, message: Vec::with_capacity(MESSAGE), records: 0, set: None };
        messages.begin();
        messages
    }

    /// Adds a record. Where it doesn't fit any more, gives the message before it, with its number of records. `now`: seconds since 1970-01-01 UTC.
    pub fn add(&mut self, template: &Template, record: &Record<'_>, now: u32) -> Option<(Vec<u8>, u32)> {
        let begin = self.message.len();
        self.open_set(template.id);
        template.write(record, &mut self.message);
        let mut full = None;
        if self.message.len() > MESSAGE {
            self.message.truncate(begin);
            self.set = self.set.filter(|(_, at)| *at < begin);
            full = self.finish(now);
            self.open_set(template.id);
            template.write(record, &mut self.message);
        }
        self.records += 1;
        full
    }

    /// A message with all templates, and how many sessions there are no records of since they were lost on their way here. It goes before the one that is being written,
    /// and leaves it as it is.
    pub fn templates(&mut self, lost: u64, now: u32) -> Option<(Vec<u8>, u32)> {
        let written = std::mem::replace(&mut self.message, Vec::with_capacity(MESSAGE));
        let within = (self.set.take(), std::mem::take(&mut self.records));
        self.begin();
        for template in Template::ALL {
            self.open_set(TEMPLATES);
            template.describe(&mut self.message);
        }
        // RFC 7011 section 4.3: of the whole observation domain, observationDomainId being the scope; notSentFlowTotalCount.
        self.open_set(OPTIONS_TEMPLATES);
        let [scope, count] = [(149_u16, 4_u16), (166, 8)];
        for half in [RELIABILITY, 2, 1, scope.0, scope.1, count.0, count.1] {
            self.message.extend(half.to_be_bytes());
        }
        self.open_set(RELIABILITY);
        self.message.extend(self.domain.to_be_bytes());
        self.message.extend(lost.to_be_bytes());
        self.records += 1;
        let message = self.finish(now);
        (self.message, (self.set, self.records)) = (written, within);
        message
    }

    /// Gives the message that is being written, with its number of records, unless it is empty.
    pub fn finish(&mut self, now: u32) -> Option<(Vec<u8>, u32)> {
        self.close_set();
        if self.message.len() == HEADER {
            return None;
        }
        let length = self.message.len() as u16;
        let header = [
            &VERSION.to_be_bytes()[..],
            &length.to_be_bytes(),
            &now.to_be_bytes(),
            &self.sequence.to_be_bytes(),
            &self.domain.to_be_bytes(),
        ];
        self.message[..HEADER].copy_from_slice(&header.concat());
        let records = std::mem::take(&mut self.records);
        self.sequence = self.sequence.wrapping_add(records);
        let message = std::mem::replace(&mut self.message, Vec::with_capacity(MESSAGE));
        self.begin();
        Some((message, records))
    }

    fn begin(&mut self) {
        self.message.resize(HEADER, 0);
        self.set = None;
    }

    /// What is written next is in a set with that id.
    fn open_set(&mut self, id: u16) {
        if self.set.is_some_and(|(open, _)| open == id) {
            return;
        }
        self.close_set();
        self.set = Some((id, self.message.len()));
        self.message.extend(id.to_be_bytes());
        self.message.extend([0; 2]);
    }

    fn close_set(&mut self) {
        if let Some((_, at)) = self.set.take() {
            let length = (self.message.len() - at) as u16;
            self.message[at + 2..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::{EndReason, FORWARDED, NatEvent};
    use super::*;

    pub(crate) fn record(tenant: &str) -> Record<'_> {
        Record {
            flow: 0x0102_0304_0506_0708,
            start: 1_700_000_000_000,
            end: 1_700_000_001_234,
            observed: 1_700_000_002_000,
            protocol: 17,
            spi: 0,
            ends: [("10.0.0.2".parse().unwrap(), 40000), ("10.0.1.2".parse().unwrap(), 53)],
            beyond: [("192.0.2.1".parse().unwrap(), 50000), ("10.0.1.2".parse().unwrap(), 53)],
            packets: [3, 2],
            bytes: [300, 200],
            seen: [(0, 64, 64), (0, 57, 57)],
            reason: EndReason::IdleTimeout,
            status: FORWARDED,
            nat: NatEvent::Nat44SessionCreate,
            block: (0, 0),
            context: 7,
            tenant,
        }
    }

    /// Ids of a message's sets, which fill it exactly.
    pub(crate) fn sets(message: &[u8]) -> Vec<u16> {
        let (mut at, mut ids) = (HEADER, Vec::new());
        while at < message.len() {
            let [id, length] = [at, at + 2].map(|at| u16::from_be_bytes([message[at], message[at + 1]]));
            assert!(length > 4, "an empty one: {message:02x?}");
            ids.push(id);
            at += usize::from(length);
        }
        assert_eq!(at, message.len());
        ids
    }

    /// Length and sequence number of a message.
    fn header(message: &[u8]) -> (usize, u32) {
        let length = u16::from_be_bytes([message[2], message[3]]);
        (length.into(), u32::from_be_bytes(message[8..12].try_into().unwrap()))
    }

    #[test]
    fn records_are_numbered_over_messages_and_none_is_too_long() {
        let mut messages = Messages::new(1);
        let mut sent = Vec::new();
        for number in 0..100 {
            let tenant = "t".repeat(number % 70);
            let template = Template::of_session(true, number % 3 == 0);
            sent.extend(messages.add(template, &record(&tenant), 5));
        }
        sent.extend(messages.finish(5));
        assert!(messages.finish(5).is_none(), "nothing is left");
        let mut before = 0;
        for (message, records) in &sent {
            assert_eq!(header(message), (message.len(), before));
            assert!(message.len() <= MESSAGE && message.len() + 200 > MESSAGE || before + records == 100);
            assert!(!sets(message).is_empty());
            before += records;
        }
        assert_eq!(before, 100);
    }

    #[test]
    fn templates_fit_one_message_and_are_no_data() {
        let mut ids: Vec<u16> =
            Template::ALL.iter().map(|template| template.id).chain([RELIABILITY]).collect();
        ids.sort_unstable();
        assert!(ids.is_sorted_by(|one, next| one < next), "no number is two templates': {ids:?}");
        let mut messages = Messages::new(1);
        let (first, records) = messages.templates(0, 5).unwrap();
        assert!(first.len() <= MESSAGE, "{}", first.len());
        assert_eq!((header(&first), records), ((first.len(), 0), 1), "what is told of the exporter is one");
        let (second, _) = messages.templates(0, 5).unwrap();
        assert_eq!(header(&second).1, 1);
    }

    /// Whoever is told the templates since it can't know them is told them before the records that wait.
    #[test]
    fn templates_go_before_what_is_being_written() {
        let mut messages = Messages::new(1);
        let template = Template::of_session(true, false);
        for _ in 0..2 {
            assert!(messages.add(template, &record("red"), 5).is_none());
        }
        let (first, records) = messages.templates(0, 5).unwrap();
        let all = [TEMPLATES, OPTIONS_TEMPLATES, RELIABILITY];
        assert_eq!((sets(&first), header(&first), records), (all.into(), (first.len(), 0), 1));
        assert!(messages.add(template, &record("red"), 5).is_none());
        let (second, records) = messages.finish(5).unwrap();
        let data = vec![template.id];
        assert_eq!((sets(&second), header(&second), records), (data, (second.len(), 1), 3));
    }

    #[test]
    fn a_text_that_is_too_long_is_cut() {
        let mut messages = Messages::new(1);
        let long = "ä".repeat(1000);
        assert!(messages.add(Template::of_session(true, false), &record(&long), 5).is_none());
        let (message, _) = messages.finish(5).unwrap();
        assert!(message.len() < MESSAGE && header(&message).0 == message.len());
    }
}
