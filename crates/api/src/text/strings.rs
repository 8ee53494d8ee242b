//! Where a TOML document has strings of several lines: only in these, a line that looks like a header is none.

use std::iter;
use std::ops::Range;

/// Strings of several lines, in order, with their quotes. One without an end reaches to the document's.
pub(super) fn strings(text: &str) -> impl Iterator<Item = Range<usize>> {
    let (mut basic, mut literal) = (Finder::new(text, "\"\"\""), Finder::new(text, "'''"));
    let mut from = 0;
    iter::from_fn(move || {
        loop {
            let (quotes, begin) = match (basic.from(from), literal.from(from)) {
                (Some(basic), Some(literal)) if basic < literal => ("\"\"\"", basic),
                (basic, None) => ("\"\"\"", basic?),
                (_, Some(literal)) => ("'''", literal),
            };
            let line = text.get(from..begin)?.rfind('\n').map_or(from, |newline| from + newline + 1);
            match outside(text.get(line..begin)?) {
                Outside::Yes => {
                    let inside = begin + quotes.len();
                    let len = end(text.get(inside..)?, quotes);
                    from = len.map_or(text.len(), |len| inside + len + quotes.len());
                    return Some(begin..from);
                }
                // What else stands in a comment's line, or in that of a string, is looked at from there on.
                Outside::Comment => from = begin + text.get(begin..)?.find('\n')?,
                Outside::String(quote) => {
                    let rest = text.get(begin..)?;
                    from = begin + end(rest, quote).map_or(1, |len| len + 1);
                }
            }
        }
    })
}

/// Finds quotes; remembers what it found, as it may lie far ahead.
struct Finder<'a> {
    text: &'a str,
    quotes: &'static str,
    found: Option<usize>,
}

impl<'a> Finder<'a> {
    fn new(text: &'a str, quotes: &'static str) -> Self {
        Self { text, quotes, found: text.find(quotes) }
    }

    /// The first ones from a byte on that isn't before that of an earlier call.
    fn from(&mut self, from: usize) -> Option<usize> {
        if self.found? < from {
            self.found = self.text.get(from..)?.find(self.quotes).map(|at| from + at);
        }
        self.found
    }
}

/// Where the end of a beginning of a line is.
enum Outside {
    /// Outside of strings and comments.
    Yes,
    Comment,
    /// Within a string that ends with this quote.
    String(&'static str),
}

fn outside(line: &str) -> Outside {
    let mut rest = line;
    while let Some(at) = rest.find(['"', '\'', '#']) {
        let quote = match rest.as_bytes().get(at) {
            Some(b'#') => return Outside::Comment,
            Some(b'"') => "\"",
            _ => "'",
        };
        let inside = rest.get(at + 1..).unwrap_or_default();
        match end(inside, quote) {
            Some(len) => rest = inside.get(len + 1..).unwrap_or_default(),
            None => return Outside::String(quote),
        }
    }
    Outside::Yes
}

/// Bytes of a string before the quotes that end it; with double quotes, `\` takes the next character's meaning away.
fn end(inside: &str, quotes: &str) -> Option<usize> {
    if quotes.starts_with('\'') {
        return inside.find(quotes);
    }
    let mut at = 0;
    loop {
        let rest = inside.get(at..)?;
        let quote = rest.find(quotes)?;
        match rest.find('\\').filter(|escape| *escape < quote) {
            Some(escape) => {
                let escaped = rest.get(escape + 1..)?.chars().next()?;
                at += escape + 1 + escaped.len_utf8();
            }
            None => return Some(at + quote),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::strings;

    #[test]
    fn only_strings_of_several_lines_are_found() {
        let text = concat!(
            "a = \"\"\"x\n[[b]]\n\\\"\"\" \"\" still\"\"\" # \"\"\" none\n",
            "b = ['''\n''', \"\"\"\"\"\", \"'''\", '\"\"\"', \"\\\"'''\"] # it's '''\n",
            "c = '''\n\"\"\"\n'''''\n",
            "d = \"\"\"without end\n[[e]]\n",
        );
        let found: Vec<&str> = strings(text).map(|range| text.get(range).unwrap()).collect();
        let expected = [
            "\"\"\"x\n[[b]]\n\\\"\"\" \"\" still\"\"\"",
            "'''\n'''",
            "\"\"\"\"\"\"",
            "'''\n\"\"\"\n'''",
            "\"\"\"without end\n[[e]]\n",
        ];
        assert_eq!(found, expected);
        assert_eq!(strings("a = \"b\"\n").count(), 0);
    }
}
