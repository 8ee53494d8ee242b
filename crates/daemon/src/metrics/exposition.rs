//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write as _};

use api::escape;

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process ends or counters are cleared. Its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// A text in the making.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// Begins a metric; its samples follow.
    pub fn metric(&mut self, name: &'static str, kind: Kind, help: &str) -> Metric<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a String can't fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Metric { text: &mut self.text, name }
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// A metric whose samples are being written.
#[derive(Debug)]
pub struct Metric<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Metric<'_> {
    /// One sample.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.name);
        for (index, (name, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{name}=\"");
            // Line breaks have an escape of the format's own; others would reach terminals as they are.
            for character in escape::lines(value).chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_prometheus_documents() {
        let mut exposition = Exposition::default();
        let mut metric = exposition.metric("quiver_test_total", Kind::Counter, "A\\B\nC.");
        metric.sample(&[], 1);
        metric.sample(&[("path", "C:\\DIR\"x\"\n"), ("kind", "a")], 2.5);
        metric.sample(&[("path", "\x1b[2J\u{202e}")], 3);
        exposition.metric("quiver_gauge", Kind::Gauge, "G.").sample(&[("a", "")], 0);
        assert_eq!(
            exposition.finish(),
            "# HELP quiver_test_total A\\\\B\\nC.\n# TYPE quiver_test_total counter\nquiver_test_total 1\n\
             quiver_test_total{path=\"C:\\\\DIR\\\"x\\\"\\n\",kind=\"a\"} 2.5\n\
             quiver_test_total{path=\"\\\\x1b[2J\\\\u{202e}\"} 3\n\
             # HELP quiver_gauge G.\n# TYPE quiver_gauge gauge\nquiver_gauge{a=\"\"} 0\n"
        );
    }
}
