//! Ethernet addresses of interfaces that weren't given one.

use std::sync::LazyLock;

use super::Mac;

/// What tells this host from others: its machine id (machine-id(5)), or, as in most containers, the name of the host.
static HOST: LazyLock<String> = LazyLock::new(|| {
    let id = crate::files::read_text("/etc/machine-id".as_ref()).unwrap_or_default();
    match id.trim() {
        "" | "uninitialized" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        id => id.to_owned(),
    }
});

/// The Ethernet address of the interface of this name on this host: locally administered, the same whenever an interface has
/// this name here, so that neighbours' tables survive a restart; another on other hosts, as their interfaces may well have the same name, and
/// meet ours in one network.
pub(super) fn stable_mac(name: &str) -> Mac {
    of_host(&HOST, name)
}

fn of_host(host: &str, name: &str) -> Mac {
    // FNV-1a: what matters is that it is the same everywhere and always.
    let bytes = host.bytes().chain([0]).chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let [a, b, c, d, ..] = (hash ^ (hash >> 32)).to_le_bytes();
    Mac([0x02, 0xfe, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_always_has_the_same_address_and_others_another() {
        assert_eq!(stable_mac("pod-a"), stable_mac("pod-a"));
        let hosts = ["node-1", "node-2", "3d1219c7c4c5404aaa1f6d2a48adfda4"];
        let names = (0..1000).map(|n| format!("pod-{n}"));
        let mut seen: Vec<_> = names.flat_map(|name| hosts.map(|host| of_host(host, &name).0)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 3000);
        assert!(seen.iter().all(|mac| mac[0] & 3 == 2), "local, unicast");
    }
}
