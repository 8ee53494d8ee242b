//! Prefixes of IPv6 that a NAT pool exchanges.

use std::net::Ipv6Addr;

use api::v1::NatPrefix;
use features::session::nat::PrefixPair;
use ipnet::{IpNet, Ipv6Net};

use crate::model::{Flaw, fields};

/// A longer one leaves no word that could take back what the exchange does to checksums (RFC 6296 section 3.5).
const LONGEST: u8 = 64;

/// Reads a pool's prefixes, none of which overlap; ordered.
///
/// # Errors
/// [`Flaw`] naming the field.
pub(super) fn parse(said: &[NatPrefix]) -> Result<Vec<PrefixPair>, Flaw> {
    let mut pairs: Vec<PrefixPair> = Vec::new();
    for (index, one) in said.iter().enumerate() {
        let place = |field: &str| format!("prefixes[{index}].{field}");
        let inside = prefix(&place("inside"), &one.inside)?;
        let outside = prefix(&place("outside"), &one.outside)?;
        if inside.prefix_len() != outside.prefix_len() {
            let what = format!("{outside} isn't as long as {inside}");
            return Err(Flaw::new(place("outside"), what).remedy("take prefixes of the same length"));
        }
        let pair = PrefixPair {
            inside: inside.addr().to_bits(),
            outside: outside.addr().to_bits(),
            len: inside.prefix_len(),
        };
        if pairs.iter().any(|other| other.overlaps(pair)) {
            let what = format!("{inside} or {outside} overlaps another pair's");
            return Err(Flaw::new(format!("prefixes[{index}]"), what).remedy("say each prefix once"));
        }
        pairs.push(pair);
    }
    // An address that is one host's inside and another's outside can't be told.
    let both = pairs.iter().find(|one| pairs.iter().any(|other| shares(**one, *other)));
    if let Some(both) = both {
        let what = format!("{}/{} is inside and outside", Ipv6Addr::from_bits(both.outside), both.len);
        return Err(Flaw::new("prefixes", what).remedy("take prefixes outside that no host inside has"));
    }
    pairs.sort_unstable();
    Ok(pairs)
}

/// Whether the prefix outside of `one` and the prefix inside of `other` have an address in common.
fn shares(one: PrefixPair, other: PrefixPair) -> bool {
    let len = one.len.min(other.len);
    let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
    (one.outside ^ other.inside) & mask == 0
}

/// The canonical form.
pub(super) fn to_api(pair: &PrefixPair) -> NatPrefix {
    let text = |bits: u128| format!("{}/{}", Ipv6Addr::from_bits(bits), pair.len);
    NatPrefix { inside: text(pair.inside), outside: text(pair.outside) }
}

fn prefix(field: &str, text: &str) -> Result<Ipv6Net, Flaw> {
    let IpNet::V6(net) = fields::network(field, text)? else {
        return Err(
            Flaw::new(field, format!("{text} isn't IPv6")).remedy("say addresses of IPv4 in `addresses`")
        );
    };
    if net.prefix_len() == 0 || net.prefix_len() > LONGEST {
        return Err(Flaw::new(field, format!("{text} has {} bits", net.prefix_len()))
            .remedy(format!("take 1 to {LONGEST}")));
    }
    Ok(net)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(inside: &str, outside: &str) -> NatPrefix {
        NatPrefix { inside: inside.into(), outside: outside.into() }
    }

    #[test]
    fn prefixes_come_back_as_they_are() {
        let said = [pair("fd01:203:405::/48", "2001:db8:1::/48"), pair("fd02::/56", "2001:db8:2::/56")];
        let api: Vec<_> = parse(&said).unwrap().iter().map(to_api).collect();
        assert_eq!(api, said);
    }

    #[test]
    fn flaws_name_their_field() {
        let good = pair("fd01:203:405::/48", "2001:db8:1::/48");
        for (said, field) in [
            (vec![pair("10.0.0.0/8", "2001:db8::/48")], "prefixes[0].inside"),
            (vec![pair("fd00::/48", "2001:db8::/56")], "prefixes[0].outside"),
            (vec![pair("fd00::/65", "2001:db8::/65")], "prefixes[0].inside"),
            (vec![pair("fd00::/48", "web")], "prefixes[0].outside"),
            (vec![good.clone(), pair("fd01:203:405::/56", "2001:db8:2::/56")], "prefixes[1]"),
            (vec![good.clone(), pair("fd02::/32", "2001:db8::/32")], "prefixes[1]"),
            (vec![good.clone(), pair("2001:db8:1::/56", "2001:db8:2::/56")], "prefixes"),
            (vec![pair("fd00::/48", "fd00::/48")], "prefixes"),
        ] {
            assert_eq!(parse(&said).unwrap_err().field, field, "{said:?}");
        }
        assert!(parse(&[good]).is_ok());
    }
}
