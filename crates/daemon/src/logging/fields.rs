//! Fields of a line of the log for people.

use std::fmt::{self, Debug};

use api::escape;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

/// Writes the message and `key=value` for each field. Neither ends the line nor passes for another field: the message is
/// escaped, and values are quoted unless they are plain words.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EscapedFields;

impl<'writer> FormatFields<'writer> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = Visitor { writer, first: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct Visitor<'writer> {
    writer: Writer<'writer>,
    first: bool,
    result: fmt::Result,
}

impl Visitor<'_> {
    fn write(&mut self, field: &Field, message: &str, value: &str) {
        if self.result.is_err() {
            return;
        }
        let space = if std::mem::take(&mut self.first) { "" } else { " " };
        let ansi = self.writer.has_ansi_escapes();
        self.result = match field.name() {
            "message" => write!(self.writer, "{space}{}", escape::text(message)),
            name if ansi => write!(self.writer, "{space}\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{value}"),
            name => write!(self.writer, "{space}{name}={value}"),
        };
    }
}

impl Visit for Visitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        self.write(field, &text, &escape::value(&text));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, value, &escape::quoted(value));
    }
}
