//! Long TOML documents, read some objects at a time.
//!
//! A TOML document is a tree before it is a message, fifty times as long in memory: 7 GB for two million routes. Objects
//! stand in it one after the other, so each part of it that begins with the header of an object (`[[route]]`) is a
//! document, too. Where a cut went through a list or a string, its first part is none, and the whole is read.

use std::iter;

use crate::v1::Config;

/// About so many bytes are read at a time: their tree fits into caches (2 million routes: 4.6 s; 8 s by the MiB).
const PIECE: usize = 1 << 16;

/// Reads a desired state.
///
/// # Errors
/// What is not TOML, or not of the expected shape, and where in `text`.
pub(super) fn read(text: &str) -> Result<Config, toml::de::Error> {
    read_by(text, PIECE)
}

fn read_by(text: &str, size: usize) -> Result<Config, toml::de::Error> {
    let mut all = Config::default();
    for piece in pieces(text, size) {
        match toml::from_str::<Config>(piece) {
            Ok(config) => all.extend(config),
            // Its place in the piece would mislead.
            Err(_) => return toml::from_str(text),
        }
    }
    Ok(all)
}

/// Cuts a document in front of headers, into pieces of `size` bytes and more.
fn pieces(text: &str, size: usize) -> impl Iterator<Item = &str> {
    // A key in front of all headers may be a list, which a header must not go on with: only the whole shows it.
    let first = headers(text).next().and_then(|header| text.get(..header));
    let size = if first.is_some_and(is_blank) { size } else { text.len() };
    let mut rest = Some(text);
    iter::from_fn(move || {
        let text = rest.take()?;
        let Some((piece, after)) =
            headers(text).find(|header| *header >= size).and_then(|cut| text.split_at_checked(cut))
        else {
            return Some(text);
        };
        rest = Some(after);
        Some(piece)
    })
}

/// Where lines begin that are headers of objects. `[[name.part]]` is none: it belongs to the object before it.
fn headers(text: &str) -> impl Iterator<Item = usize> {
    const BEGIN: &str = "\n[[";
    let first = text.starts_with("[[").then_some(0);
    let others = text.match_indices(BEGIN).map(|(newline, _)| newline + 1);
    first.into_iter().chain(others).filter(|header| {
        let name = text.get(header + 2..).unwrap_or_default();
        name.split_once(']').is_some_and(|(name, _)| name.bytes().all(|byte| byte.is_ascii_lowercase()))
    })
}

fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim_start).all(|line| line.is_empty() || line.starts_with('#'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

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
        }
    }
}
