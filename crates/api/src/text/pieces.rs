//! Long TOML documents, read some objects at a time.
//!
//! A TOML document is a tree before it is a message, fifty times as long in memory: 7 GB for two million routes. Objects
//! stand in it one after the other, so each part of it that begins with the header of an object (`[[route]]`) is a
//! document, too. What is wrong in a part is said of its place in the whole, which is never read as one for that.

use std::iter;

use super::TomlError;
use super::strings::strings;
use crate::v1::Config;

/// About so many bytes are read at a time: their tree fits into caches (2 million routes: 4.6 s; 8 s by the MiB).
const PIECE: usize = 1 << 16;
/// Longest document that is read as a whole where its tables are in an order that no pieces have.
const WHOLE: usize = 1 << 24;

/// Reads a desired state.
///
/// # Errors
/// What is not TOML, or not of the expected shape, and where in `text`.
pub(super) fn read(text: &str) -> Result<Config, TomlError> {
    read_by(text, PIECE)
}

fn read_by(text: &str, size: usize) -> Result<Config, TomlError> {
    let mut all = Config::default();
    let mut offset = 0;
    for piece in pieces(text, size) {
        match toml::from_str::<Config>(piece) {
            Ok(config) => {
                for list in ALLOW {
                    no_list_of_nobody(text, offset, piece, list)?;
                }
                all.extend(config);
            }
            Err(error) => {
                return match stray_table(text, offset, piece) {
                    Some(_) if text.len() <= WHOLE => {
                        toml::from_str(text).map_err(|error| TomlError::of_part(text, 0, &error))
                    }
                    Some(table) => Err(TomlError::at(text, table..table + 1, STRAY)),
                    None => Err(TomlError::of_part(text, offset, &error)),
                };
            }
        }
        if offset == 0 {
            free_of_lists(text, piece)?;
        }
        offset += piece.len();
    }
    Ok(all)
}

const STRAY: &str = "in a document of this length, a table must stand behind the header of its object, before any other object";

/// Lists of who may connect: in a message one that is empty is none, and lets everybody in.
const ALLOW: [&str; 2] = ["allow_uids", "allow_gids"];

/// Refuses a list that is written but names nobody.
fn no_list_of_nobody(text: &str, offset: usize, piece: &str, list: &str) -> Result<(), TomlError> {
    let Some(first) = piece.find(list) else { return Ok(()) };
    let table = toml::from_str::<toml::Table>(piece).unwrap_or_default();
    let interfaces = table.get("interface").and_then(toml::Value::as_array).into_iter().flatten();
    let mut lists = interfaces.filter_map(|interface| interface.get("memif")?.get(list)?.as_array());
    if !lists.any(Vec::is_empty) {
        return Ok(());
    }
    let is_empty = |at: &usize| {
        let value = piece.get(at + list.len()..).unwrap_or_default().trim_start().strip_prefix('=');
        let inside = value.and_then(|value| value.trim_start().strip_prefix('['));
        inside.is_some_and(|inside| inside.trim_start().starts_with(']'))
    };
    let at = offset + piece.match_indices(list).map(|(at, _)| at).find(is_empty).unwrap_or(first);
    let why = format!("{list} names nobody: leave it out to let everybody connect");
    Err(TomlError::at(text, at..at + list.len(), &why))
}

/// Cuts a document in front of headers, into pieces of `size` bytes and more. What stands before all headers is one by itself,
/// unless that is nothing.
fn pieces(text: &str, size: usize) -> impl Iterator<Item = &str> {
    let mut headers = headers(text).peekable();
    let first =
        headers.peek().copied().filter(|first| text.get(..*first).is_some_and(|text| !is_blank(text)));
    let mut begin = Some(0);
    iter::from_fn(move || {
        let from = begin?;
        let least = if from == 0 && first.is_some() { 1 } else { from + size };
        begin = headers.find(|header| *header >= least);
        text.get(from..begin.unwrap_or(text.len()))
    })
}

/// Where headers of objects are. `[[name.part]]` is none: it belongs to the object before it.
fn headers(text: &str) -> impl Iterator<Item = usize> {
    lines(text, "[[").filter(|header| {
        let name = text.get(header + 2..).unwrap_or_default();
        name.split_once(']').is_some_and(|(name, _)| name.bytes().all(|byte| byte.is_ascii_lowercase()))
    })
}

/// Where `start`, one bracket or two, is the first of its line but for blanks, and doesn't lie in a string.
fn lines<'a>(text: &'a str, start: &'static str) -> impl Iterator<Item = usize> + 'a {
    let mut strings = strings(text).peekable();
    let begins_line = |at: usize| {
        let before = text.get(..at).unwrap_or_default().trim_end_matches([' ', '\t']);
        before.is_empty() || before.ends_with('\n')
    };
    text.match_indices(start).map(|(at, _)| at).filter(move |at| {
        while strings.next_if(|string| string.end <= *at).is_some() {}
        strings.peek().is_none_or(|string| *at < string.start) && begins_line(*at)
    })
}

/// Lists that the document gives by a key in front of all headers: no header may go on with them.
fn free_of_lists(text: &str, first: &str) -> Result<(), TomlError> {
    if first.len() == text.len() || headers(first).next().is_some() {
        return Ok(());
    }
    let lists = toml::from_str::<toml::Table>(first).unwrap_or_default();
    for header in headers(text) {
        let name = name(text, header);
        if lists.contains_key(name) {
            // The library's words for it.
            let list = format!("{name} = []\n");
            return match toml::from_str::<toml::Table>(&format!("{list}[[{name}]]\n")) {
                Ok(_) => Ok(()),
                Err(error) => {
                    let span = error.span().unwrap_or(list.len()..list.len() + 2);
                    let place = |at: usize| header + at.saturating_sub(list.len());
                    Err(TomlError::at(text, place(span.start)..place(span.end), error.message()))
                }
            };
        }
    }
    Ok(())
}

/// A table in a piece that belongs to an object of an earlier piece, which only the whole says.
fn stray_table(text: &str, offset: usize, piece: &str) -> Option<usize> {
    let found = lines(piece, "[").find(|table| {
        let name = name(piece, *table);
        let part = !headers(piece).any(|header| header == *table);
        let here = headers(piece)
            .take_while(|header| header < table)
            .any(|header| self::name(piece, header) == name);
        part && !here
            && text
                .get(..offset)
                .is_some_and(|before| headers(before).any(|header| self::name(text, header) == name))
    });
    found.map(|table| offset + table)
}

/// The first name of a header.
fn name(text: &str, header: usize) -> &str {
    let name = text.get(header..).unwrap_or_default().trim_start_matches('[');
    name.split([']', '.', '\n']).next().unwrap_or_default().trim()
}

fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim_start).all(|line| line.is_empty() || line.starts_with('#'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_nobody_is_refused() {
        let document = |list: &str| {
            format!(
                "# allow_uids = []\n[[interface]]\nname = \"a\"\n[interface.memif]\nsocket = \"/run/a\"\n{list}\n"
            )
        };
        for list in ["allow_uids = []", "allow_gids = [\n]"] {
            let error = read(&document(list)).unwrap_err().to_string();
            assert!(error.contains("names nobody"), "{error}");
        }
        assert!(read(&document("allow_uids = [7]")).is_ok());
        assert!(
            read("[[interface]]\nname = \"a\"\nmemif = { socket = \"/run/a\", allow_gids = [ ] }").is_err()
        );
    }

    const LAB: &str = r#"# a lab
[[vrf]]
name = "red"

[[interface]]
name = "a"
addresses = [
  "10.0.0.1/24",
]
[interface.memif]
socket = "/run/a"
[[bridge]]
name = "b"
[[bridge.static_macs]]
mac = "02:00:00:00:00:01"
interface = "c"
[[route]]
prefix = "10.1.0.0/16"
next_hops = [{ address = "10.0.0.2" }]
[[route]]
prefix = "10.2.0.0/16"
"#;

    #[test]
    fn cuts_are_in_front_of_objects() {
        let cut = pieces(LAB, 1).map(|piece| piece.lines().next().unwrap()).collect::<Vec<_>>();
        assert_eq!(cut, ["# a lab", "[[vrf]]", "[[interface]]", "[[bridge]]", "[[route]]", "[[route]]"]);
        assert_eq!(pieces(LAB, 1).collect::<String>(), LAB);
        assert_eq!(pieces(LAB, LAB.len()).count(), 1);
        assert_eq!(pieces("", 1).count(), 1);
    }

    #[test]
    fn pieces_together_are_the_whole() {
        let whole = toml::from_str::<Config>(LAB).unwrap();
        assert_eq!(whole.len(), 5);
        for size in [1, 60, 200, LAB.len()] {
            assert_eq!(read_by(LAB, size).unwrap(), whole, "pieces of {size}");
        }
    }

    #[test]
    fn headers_may_be_indented() {
        let indented = LAB.replace("\n[[", "\n \t[[").replace("\n[", "\n  [");
        assert_eq!(pieces(&indented, 1).count(), pieces(LAB, 1).count());
        for size in [1, 60, LAB.len()] {
            let both = format!("{indented}{LAB}");
            assert_eq!(read_by(&both, size).unwrap(), toml::from_str::<Config>(&both).unwrap());
        }
    }

    #[test]
    fn what_looks_like_a_header_within_a_string_is_none() {
        let text =
            "[[vrf]]\nname = \"red\"\n[[vrf]]\nname = \"\"\"\n[[route]]\n\"\"\"\n[[vrf]]\nname = \"c\"\n";
        let names = read_by(text, 1).unwrap().vrfs.into_iter().map(|vrf| vrf.name).collect::<Vec<_>>();
        assert_eq!(names, ["red", "[[route]]\n", "c"]);
    }

    #[test]
    fn what_the_whole_does_not_allow_pieces_do_not_either() {
        let list_first = format!("route = []\n{LAB}");
        let table_too = format!("{LAB}[route]\nprefix = \"10.3.0.0/16\"\n");
        let twice = format!("{LAB}prefix = \"10.3.0.0/16\"\n");
        let misspelt = format!("{LAB}[[route]]\nprefixes = \"10.3.0.0/16\"\n");
        for text in [list_first, table_too, twice, misspelt] {
            let (pieces, whole) =
                (read_by(&text, 1).unwrap_err(), toml::from_str::<Config>(&text).unwrap_err());
            assert_eq!((pieces.span(), pieces.message()), (whole.span(), whole.message()));
            assert_eq!(pieces.to_string(), whole.to_string());
        }
    }

    #[test]
    fn tables_far_from_their_objects_are_theirs() {
        let far = format!("{LAB}[interface.tap]\nnetns = \"x\"\n").replacen(
            "[interface.memif]\nsocket = \"/run/a\"\n",
            "",
            1,
        );
        assert_eq!(read_by(&far, 1).unwrap(), toml::from_str::<Config>(&far).unwrap());
        let misspelt = far.replace("[interface.tap]", "[interfaces.tap]");
        assert!(read_by(&misspelt, 1).unwrap_err().message().contains("interfaces"));
    }

    #[test]
    fn mistakes_are_told_where_they_are_in_the_document() {
        let route = |n: u32| format!("[[route]]\nprefix = \"10.{}.{}.0/24\"\n", n >> 8 & 255, n & 255);
        let before: String = (0..6).map(route).collect();
        let behind: String = (0..2000).map(route).collect();
        for (mistake, line) in [
            ("prefix = 10.3.0.0/16", 14),
            ("prefixes = \"10.3.0.0/16\"", 14),
            ("prefix = \"10.3.0.0/16", 14),
            ("x", 14),
            // What follows is its part until that can't be.
            ("next_hops = [", 16),
        ] {
            let text = format!("{before}[[route]]\n{mistake}\n{behind}");
            let (pieces, whole) =
                (read_by(&text, 100).unwrap_err(), toml::from_str::<Config>(&text).unwrap_err());
            let place = format!("TOML parse error at line {line}, column ");
            assert!(pieces.to_string().starts_with(&place), "{mistake}: {pieces}");
            assert_eq!(pieces.to_string(), whole.to_string(), "{mistake}");
        }
    }

    #[test]
    fn a_mistake_ends_reading_and_the_whole_is_not_read_for_it() {
        // Were it, the second mistake, which is one of syntax, would be told.
        let text = format!("{LAB}[[route]]\nprefixes = \"\"\n{LAB}[[route]]\nprefix = \n");
        assert!(toml::from_str::<Config>(&text).unwrap_err().message().contains("value"));
        let error = read_by(&text, 1).unwrap_err();
        assert!(error.message().contains("unknown field `prefixes`"), "{error}");
    }
}
