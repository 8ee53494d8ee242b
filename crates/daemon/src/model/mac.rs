//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

/// A 48-bit Ethernet address, first byte on the wire first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

/// A text is no Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no Ethernet address; write six bytes as \"02:fe:00:00:00:01\"")]
pub struct MacError;

impl Mac {
    /// Whether it can be the address of one station: not multicast, not all zero.
    pub fn is_station(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or(MacError)?;
            // from_str_radix alone would let "+f" pass
            if !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(MacError);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| MacError)?;
        }
        if parts.next().is_some() { Err(MacError) } else { Ok(Self(bytes)) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_bytes_and_nothing_else() {
        let mac = "02:FE:00:00:0a:01".parse::<Mac>().unwrap();
        assert_eq!(mac, Mac([2, 0xfe, 0, 0, 0x0a, 1]));
        assert_eq!(mac.to_string(), "02:fe:00:00:0a:01");
        for bad in [
            "",
            "02:fe:00:00:0a",
            "02:fe:00:00:0a:01:02",
            "2:fe:0:0:a:1",
            "+2:fe:00:00:0a:01",
            "02-fe-00-00-0a-01",
        ] {
            assert_eq!(bad.parse::<Mac>(), Err(MacError), "{bad}");
        }
    }

    #[test]
    fn groups_and_nobody_are_no_station() {
        assert!(Mac([2, 0, 0, 0, 0, 1]).is_station());
        assert!(!Mac([1, 0, 0x5e, 0, 0, 1]).is_station());
        assert!(!Mac([0xff; 6]).is_station());
        assert!(!Mac([0; 6]).is_station());
    }
}
