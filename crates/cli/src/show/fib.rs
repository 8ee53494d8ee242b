//! `show fib`.

use std::net::IpAddr;

use api::text::Words;
use api::v1::{FibEntry, FibPath, FibRequest, FibResponse, RouteAction};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::{Cell, Column, Paint, Table, Tone};

/// A forwarding table or a part of it.
#[derive(Debug)]
pub(super) struct Fib {
    request: FibRequest,
}

impl Fib {
    /// The table of a VRF; of that only one prefix, or the entry that an address takes.
    ///
    /// # Errors
    /// [`Error::Usage`] if `which` is neither prefix nor address.
    pub(super) fn new(vrf: &str, which: Option<&str>) -> Result<Self, Error> {
        let mut request = FibRequest { vrf: vrf.to_owned(), ..FibRequest::default() };
        match which {
            None => {}
            Some(address) if address.parse::<IpAddr>().is_ok() => request.lookup = address.to_owned(),
            Some(prefix) if is_prefix(prefix) => request.prefix = prefix.to_owned(),
            Some(other) => {
                return Err(Error::Usage(format!(
                    "{other} is neither a prefix like 10.0.0.0/8 nor an address like fd00::1"
                )));
            }
        }
        Ok(Self { request })
    }
}

/// Whether a text is address/length; whether bits are set beyond the length is for quiverd to say.
fn is_prefix(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

impl View for Fib {
    type Answer = FibResponse;

    async fn fetch(&self, client: &mut Client) -> Result<FibResponse, Error> {
        let mut stream = client.fib(self.request.clone()).await.doing("show fib")?;
        let mut all = FibResponse::default();
        while let Some(part) = stream.message().await.doing("show fib")? {
            all.entries.extend(part.entries);
        }
        Ok(all)
    }

    fn table(&self, answer: &FibResponse, _before: Option<Before<'_, FibResponse>>, paint: Paint) -> String {
        if answer.entries.is_empty() {
            return format!("no entries in vrf {}\n", self.request.vrf);
        }
        let mut table = Table::new([
            Column::left("PREFIX"),
            Column::left("SOURCE"),
            Column::left("ACTION"),
            Column::left("NEXT HOP"),
            Column::left("INTERFACE"),
            Column::right("WEIGHT"),
            Column::left("DETAIL"),
        ]);
        for entry in &answer.entries {
            for row in rows(entry) {
                table.row(row);
            }
        }
        table.render(paint)
    }
}

/// A row per path; further paths of an entry leave its columns empty.
fn rows(entry: &FibEntry) -> Vec<[Cell; 7]> {
    let action = match entry.action() {
        RouteAction::Unspecified => RouteAction::Forward,
        action => action,
    };
    let head = |first: bool| -> [Cell; 3] {
        if first {
            [(&entry.prefix).into(), entry.source().word().into(), action.word().into()]
        } else {
            Default::default()
        }
    };
    if entry.paths.is_empty() {
        let [prefix, source, action] = head(true);
        return vec![[
            prefix,
            source,
            action,
            Cell::default(),
            Cell::default(),
            Cell::default(),
            Cell::default(),
        ]];
    }
    let paths = entry.paths.iter().enumerate();
    paths
        .map(|(index, path)| {
            let [prefix, source, action] = head(index == 0);
            let [address, interface, weight, detail] = self::path(path, entry.paths.len() > 1);
            [prefix, source, action, address, interface, weight, detail]
        })
        .collect()
}

/// Next hop, interface, weight (only where there are several), what happens.
fn path(path: &FibPath, several: bool) -> [Cell; 4] {
    let address = if path.address.is_empty() { "direct" } else { &path.address };
    let weight = if several { path.weight.max(1).into() } else { Cell::default() };
    let detail = match (path.resolved, path.detail.as_str()) {
        (false, "") => Cell::toned("not resolved", Tone::Warn),
        (_, detail) => detail.into(),
    };
    [address.into(), (&path.interface).into(), weight, detail]
}

#[cfg(test)]
mod tests {
    use api::v1::FibSource;

    use super::*;

    fn way(address: &str, resolved: bool, detail: &str) -> FibPath {
        FibPath {
            address: address.into(),
            interface: "pod-a".into(),
            weight: 1,
            resolved,
            detail: detail.into(),
        }
    }

    #[test]
    fn entries_and_their_paths() {
        let entry = |prefix: &str, source: FibSource, action: RouteAction, paths| FibEntry {
            vrf: "default".into(),
            prefix: prefix.into(),
            source: source.into(),
            action: action.into(),
            paths,
        };
        let answer = FibResponse {
            entries: vec![
                entry("0.0.0.0/0", FibSource::Special, RouteAction::Unreachable, vec![]),
                entry(
                    "10.0.0.0/24",
                    FibSource::Connected,
                    RouteAction::Unspecified,
                    vec![way("", true, "glean")],
                ),
                entry(
                    "10.9.0.0/16",
                    FibSource::Static,
                    RouteAction::Forward,
                    vec![way("10.0.0.2", true, "rewrite 02:fe:00:00:00:02"), way("10.0.0.3", false, "")],
                ),
            ],
        };
        assert_eq!(
            Fib::new("default", None).unwrap().table(&answer, None, Paint::new(false)),
            "PREFIX       SOURCE     ACTION       NEXT HOP  INTERFACE  WEIGHT  DETAIL\n\
             0.0.0.0/0    special    unreachable\n\
             10.0.0.0/24  connected  forward      direct    pod-a              glean\n\
             10.9.0.0/16  static     forward      10.0.0.2  pod-a           1  rewrite 02:fe:00:00:00:02\n\
             \x20                                    10.0.0.3  pod-a           1  not resolved\n"
        );
    }

    #[test]
    fn prefix_or_address() {
        let request =
            |which| Fib::new("red", Some(which)).map(|fib| (fib.request.prefix, fib.request.lookup));
        assert_eq!(request("10.0.0.0/8").unwrap(), ("10.0.0.0/8".into(), String::new()));
        assert_eq!(request("fd00::/64").unwrap(), ("fd00::/64".into(), String::new()));
        assert_eq!(request("10.1.2.3").unwrap(), (String::new(), "10.1.2.3".into()));
        assert_eq!(request("fd00::1").unwrap(), (String::new(), "fd00::1".into()));
        for wrong in ["pod-a", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "/8"] {
            assert!(request(wrong).is_err(), "{wrong}");
        }
    }
}
