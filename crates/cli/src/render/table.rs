//! Columns of text, two blanks apart, as kubectl and vppctl write them.

use api::escape;

use super::{Paint, Tone};

/// Blanks between columns.
const GAP: usize = 2;

/// A column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    heading: &'static str,
    right: bool,
    optional: bool,
}

impl Column {
    /// Of words.
    pub(crate) const fn left(heading: &'static str) -> Self {
        Self { heading, right: false, optional: false }
    }

    /// Of numbers.
    pub(crate) const fn right(heading: &'static str) -> Self {
        Self { heading, right: true, optional: false }
    }

    /// Left out if all its cells are empty.
    pub(crate) const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }
}

/// A cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// With a meaning. Its text is escaped: a cell stays within its line and column.
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        let mut text = text.into();
        escape::in_place(&mut text);
        Self { text, tone }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        Self::toned(text.as_str(), Tone::Plain)
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        Self::toned(number.to_string(), Tone::Plain)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::toned(number.to_string(), Tone::Plain)
    }
}

/// Rows under headings.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    columns: [Column; N],
    rows: Vec<[Cell; N]>,
}

impl<const N: usize> Table<N> {
    /// Without rows.
    pub(crate) fn new(columns: [Column; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Appends a row.
    pub(crate) fn row(&mut self, cells: [Cell; N]) {
        self.rows.push(cells);
    }

    /// Whether there is nothing under the headings.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text; every line ends with a line break and has no blanks before it.
    pub(crate) fn render(&self, paint: Paint) -> String {
        // Characters, not cells of the terminal: names are ASCII, and free text stands in the last column.
        let widths: [usize; N] = std::array::from_fn(|index| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
        });
        let shown = |index: usize| {
            let (Some(column), Some(width)) = (self.columns.get(index), widths.get(index)) else {
                return None;
            };
            let hidden = column.optional && *width == 0;
            (!hidden).then(|| (column.right, (*width).max(column.heading.len())))
        };
        let headings: [Cell; N] = self.columns.map(|column| Cell::toned(column.heading, Tone::Strong));
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            // Blanks are owed until something follows, so that no line ends with them.
            let mut owed = 0;
            let mut first = true;
            for (index, cell) in row.iter().enumerate() {
                let Some((right, width)) = shown(index) else { continue };
                owed += if first { 0 } else { GAP };
                first = false;
                let room = width.saturating_sub(cell.text.chars().count());
                owed += if right { room } else { 0 };
                if !cell.text.is_empty() {
                    text.extend(std::iter::repeat_n(' ', owed));
                    text.push_str(&paint.tone(cell.tone, &cell.text));
                    owed = 0;
                }
                owed += if right { 0 } else { room };
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_their_headings_and_empty_ones_are_left_out() {
        let mut table = Table::new([
            Column::left("NAME"),
            Column::left("BRIDGE").optional(),
            Column::right("PACKETS"),
            Column::left("WHY"),
        ]);
        table.row(["pod-a".into(), "".into(), 12u64.into(), "".into()]);
        table.row(["a-long-name".into(), "".into(), 1_234_567_890u64.into(), "no peer".into()]);
        assert_eq!(
            table.render(Paint::new(false)),
            "NAME            PACKETS  WHY\n\
             pod-a                12\n\
             a-long-name  1234567890  no peer\n"
        );
    }

    #[test]
    fn a_cell_stays_in_its_place() {
        let mut table = Table::new([Column::left("NAME"), Column::left("WHY")]);
        table.row(["a\nb".into(), "\x1b[2J\u{202e}".into()]);
        assert_eq!(table.render(Paint::new(false)), "NAME  WHY\na\\nb  \\x1b[2J\\u{202e}\n");
    }

    #[test]
    fn colours_take_no_room() {
        let mut table = Table::new([Column::left("STATE"), Column::left("NAME")]);
        table.row([Cell::toned("up", Tone::Good), "a".into()]);
        assert_eq!(
            table.render(Paint::new(true)),
            "\x1b[1mSTATE\x1b[0m  \x1b[1mNAME\x1b[0m\n\x1b[32mup\x1b[0m     a\n"
        );
    }
}
