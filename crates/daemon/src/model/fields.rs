//! Reading single fields, with errors that name them.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::{Flaw, Mac, Name};

/// A name.
///
/// # Errors
/// [`Flaw`] if it may not be one.
pub fn name(field: &str, text: &str) -> Result<Name, Flaw> {
    Name::new(text).map_err(|reason| Flaw::new(field, reason))
}

/// A name, or none if nothing was said.
///
/// # Errors
/// [`Flaw`] if it may not be one.
pub fn optional_name(field: &str, text: &str) -> Result<Option<Name>, Flaw> {
    if text.is_empty() { Ok(None) } else { name(field, text).map(Some) }
}

/// The name of a VRF, "default" if nothing was said.
///
/// # Errors
/// [`Flaw`] if it may not be one.
pub fn vrf(field: &str, text: &str) -> Result<Name, Flaw> {
    Ok(optional_name(field, text)?.unwrap_or_else(Name::default_vrf))
}

/// An IP address.
///
/// # Errors
/// [`Flaw`] if it is none.
pub fn address(field: &str, text: &str) -> Result<IpAddr, Flaw> {
    text.parse().map_err(|_| {
        Flaw::new(field, format!("{text:?} is no IP address")).remedy("write \"10.0.0.1\" or \"fd00::1\"")
    })
}

/// A destination: bits beyond the length must be zero.
///
/// # Errors
/// [`Flaw`] if it is none.
pub fn network(field: &str, text: &str) -> Result<IpNet, Flaw> {
    let network = prefix(field, text)?;
    if network.trunc() == network {
        Ok(network)
    } else {
        Err(Flaw::new(field, format!("{text} has bits set beyond its length")).remedy(format!(
            "write {} for the network or {}/{} for the host",
            network.trunc(),
            network.addr(),
            network.max_prefix_len()
        )))
    }
}

/// An address with the length of its network.
///
/// # Errors
/// [`Flaw`] if it is none.
pub fn prefix(field: &str, text: &str) -> Result<IpNet, Flaw> {
    text.parse().map_err(|_| {
        let flaw = Flaw::new(field, format!("{text:?} is no address with a prefix length"));
        match text.parse::<IpAddr>() {
            Ok(address) => flaw.remedy(format!("write \"{}\"", IpNet::from(address))),
            Err(_) => flaw.remedy("write \"10.0.0.1/24\" or \"fd00::1/64\""),
        }
    })
}

/// The address of one Ethernet station.
///
/// # Errors
/// [`Flaw`] if it is none.
pub fn station(field: &str, text: &str) -> Result<Mac, Flaw> {
    let mac = text.parse::<Mac>().map_err(|error| Flaw::new(field, format!("{text:?} {error}")))?;
    if mac.is_station() {
        Ok(mac)
    } else {
        Err(Flaw::new(field, format!("{mac} is a group address or nobody's"))
            .remedy("take an address with an even first byte, for example 02:fe:00:00:00:01"))
    }
}

/// The address of one Ethernet station, or none if nothing was said.
///
/// # Errors
/// [`Flaw`] if it is none.
pub fn optional_station(field: &str, text: &str) -> Result<Option<Mac>, Flaw> {
    if text.is_empty() { Ok(None) } else { station(field, text).map(Some) }
}

/// A number within `range`, `default` where 0 means that nothing was said.
///
/// # Errors
/// [`Flaw`] if it is outside.
pub fn number<T>(field: &str, value: T, range: RangeInclusive<T>, default: T) -> Result<T, Flaw>
where
    T: PartialOrd + Default + Display + Copy,
{
    if value == T::default() {
        Ok(default)
    } else if range.contains(&value) {
        Ok(value)
    } else {
        Err(Flaw::new(field, format!("{value} is out of range")).remedy(format!(
            "take {} to {}",
            range.start(),
            range.end()
        )))
    }
}

/// A network namespace: a name under /run/netns or an absolute path. The path to a named one becomes its name, so
/// that the same namespace is always called the same.
///
/// # Errors
/// [`Flaw`] if it is neither.
pub fn netns(field: &str, text: &str) -> Result<Option<String>, Flaw> {
    if text.is_empty() {
        return Ok(None);
    }
    let name =
        text.strip_prefix("/run/netns/").or_else(|| text.strip_prefix("/var/run/netns/")).unwrap_or(text);
    if name.contains('/') && !name.starts_with('/') {
        return Err(Flaw::new(field, format!("{text:?} is neither a name nor an absolute path"))
            .remedy("write the name from `ip netns list` or a path like /proc/1234/ns/net"));
    }
    no_nul(field, name)?;
    Ok(Some(name.to_owned()))
}

/// An absolute path, or none if nothing was said.
///
/// # Errors
/// [`Flaw`] if it is relative: it would depend on where quiverd was started.
pub fn path(field: &str, text: &str) -> Result<Option<String>, Flaw> {
    if text.is_empty() {
        return Ok(None);
    }
    if !text.starts_with('/') {
        return Err(
            Flaw::new(field, format!("{text:?} is a relative path")).remedy("write the path from / on")
        );
    }
    no_nul(field, text)?;
    Ok(Some(text.to_owned()))
}

/// No zero bytes: the system would end the text there.
///
/// # Errors
/// [`Flaw`] if there is one.
pub fn no_nul(field: &str, text: &str) -> Result<(), Flaw> {
    if text.contains('\0') { Err(Flaw::new(field, "contains a zero byte")) } else { Ok(()) }
}

/// The workers of a port's receive queues: one for each of them, or none.
///
/// # Errors
/// [`Flaw`] for another number of them. Whether such workers are there is looked for when the port is opened.
pub fn rx_workers(workers: &[u32], rx_queues: u32) -> Result<Vec<u32>, Flaw> {
    if workers.is_empty() || workers.len() == rx_queues as usize {
        return Ok(workers.to_vec());
    }
    let why = format!("names {} workers for rx_queues = {rx_queues}", workers.len());
    Err(Flaw::new("rx_workers", why).remedy("name one for each queue, or leave it out"))
}

/// A value of an enum; `default` where nothing was said.
///
/// # Errors
/// [`Flaw`] for a number that this version gives no meaning.
pub fn choice<E>(field: &str, value: i32, default: E) -> Result<E, Flaw>
where
    E: api::text::Words + Default + PartialEq,
{
    match E::try_from(value) {
        Ok(value) if value == E::default() => Ok(default),
        Ok(value) => Ok(value),
        Err(_) => Err(Flaw::new(field, format!("{value} has no meaning in this version"))
            .remedy(format!("take one of: {}", E::WORDS.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flaw_says_what_to_write_instead() {
        assert_eq!(
            network("prefix", "10.0.0.1/8").unwrap_err().to_string(),
            "prefix: 10.0.0.1/8 has bits set beyond its length; write 10.0.0.0/8 for the network or 10.0.0.1/32 for the host"
        );
        assert_eq!(prefix("addresses", "10.0.0.1").unwrap_err().remedy, "write \"10.0.0.1/32\"");
        assert_eq!(number("queues", 300_u32, 1..=256, 1).unwrap_err().remedy, "take 1 to 256");
    }

    #[test]
    fn the_same_namespace_has_one_name() {
        assert_eq!(netns("n", "").unwrap(), None);
        for text in ["pod-a", "/run/netns/pod-a", "/var/run/netns/pod-a"] {
            assert_eq!(netns("n", text).unwrap().as_deref(), Some("pod-a"));
        }
        assert_eq!(netns("n", "/proc/7/ns/net").unwrap().as_deref(), Some("/proc/7/ns/net"));
        assert!(netns("n", "a/b").is_err());
        assert!(netns("n", "a\0").is_err());
    }
}
