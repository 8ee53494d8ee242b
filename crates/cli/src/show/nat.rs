//! `show nat`.

use api::v1::{NatPoolState, NatRequest, NatResponse};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::number::{event_rate, growth};
use crate::render::{Cell, Column, Paint, Table, Tone};

/// All pools, or one.
#[derive(Debug)]
pub(super) struct Pools {
    /// Name; `None`: all.
    pub(super) name: Option<String>,
}

impl View for Pools {
    type Answer = NatResponse;

    async fn fetch(&self, client: &mut Client) -> Result<NatResponse, Error> {
        let request = NatRequest { name: self.name.clone().unwrap_or_default() };
        client.nat(request).await.doing("show nat")
    }

    fn table(&self, answer: &NatResponse, before: Option<Before<'_, NatResponse>>, paint: Paint) -> String {
        if answer.pools.is_empty() {
            return "no NAT pools\n".into();
        }
        let mut table = Table::new([
            Column::left("POOL"),
            Column::left("ADDRESSES"),
            Column::left("PORTS"),
            Column::left("HOSTS").optional(),
            Column::left("BLOCKS").optional(),
            Column::right("MAPPED").optional(),
            Column::left("PREFIXES").optional(),
            Column::right("SESSIONS"),
            Column::right("CREATED"),
            Column::right("RATE").optional(),
            Column::right("EXHAUSTED"),
            Column::right("NO BLOCK").optional(),
            Column::left("TENANTS").optional(),
        ]);
        for pool in &answer.pools {
            let earlier = before.and_then(|before| {
                let then = before.answer.pools.iter().find(|other| other.name == pool.name)?;
                Some(growth(pool.created, then.created, before.elapsed))
            });
            table.row([
                (&pool.name).into(),
                pool.addresses.join(" ").into(),
                format!("{}-{}", pool.first_port, pool.last_port).into(),
                hosts(pool).into(),
                blocks(pool).into(),
                if pool.mappings.is_empty() { Cell::default() } else { (pool.mappings.len() as u64).into() },
                prefixes(pool).into(),
                pool.translations.into(),
                pool.created.into(),
                earlier.map(event_rate).unwrap_or_default().into(),
                refused(pool.exhausted),
                if pool.block_size == 0 { Cell::default() } else { refused(pool.without_block) },
                pool.tenants.join(" ").into(),
            ]);
        }
        table.render(paint)
    }
}

/// Packets that were dropped.
fn refused(packets: u64) -> Cell {
    Cell::toned(packets.to_string(), if packets > 0 { Tone::Bad } else { Tone::Plain })
}

/// "fd00::/48 as 2001:db8:1::/48".
fn prefixes(pool: &NatPoolState) -> String {
    let pairs = pool.prefixes.iter().map(|pair| format!("{} as {}", pair.inside, pair.outside));
    pairs.collect::<Vec<_>>().join(", ")
}

/// "10.0.0.0/24, 252 each", where hosts have their ports by their address.
fn hosts(pool: &NatPoolState) -> String {
    match pool.deterministic.as_str() {
        "" => String::new(),
        hosts => format!("{hosts}, {} each", pool.ports_per_host),
    }
}

/// "3 of 126, 512 ports each", where hosts are given ports in blocks.
fn blocks(pool: &NatPoolState) -> String {
    match pool.block_size {
        0 => String::new(),
        size => format!("{} of {}, {size} ports each", pool.blocks_taken, pool.blocks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_and_what_is_used_of_them() {
        let out = NatPoolState {
            name: "out".into(),
            addresses: vec!["192.0.2.0/28".into(), "198.51.100.7".into()],
            first_port: 1024,
            last_port: 65535,
            tenants: vec!["blue".into(), "red".into()],
            size: 17,
            translations: 20,
            created: 300,
            exhausted: 4,
            ..NatPoolState::default()
        };
        let fixed = NatPoolState {
            name: "fixed".into(),
            addresses: vec!["192.0.2.64".into()],
            deterministic: "10.0.0.0/24".into(),
            ports_per_host: 252,
            exhausted: 0,
            tenants: vec![],
            ..out.clone()
        };
        let view = Pools { name: None };
        let answer = NatResponse { pools: vec![fixed, out] };
        assert_eq!(
            view.table(&answer, None, Paint::new(false)),
            "POOL   ADDRESSES                  PORTS       HOSTS                  SESSIONS  CREATED  EXHAUSTED  TENANTS\n\
             fixed  192.0.2.64                 1024-65535  10.0.0.0/24, 252 each        20      300          0\n\
             out    192.0.2.0/28 198.51.100.7  1024-65535                               20      300          4  blue red\n"
        );
        let shared = NatPoolState {
            block_size: 512,
            blocks: 126,
            blocks_taken: 3,
            without_block: 7,
            ..answer.pools[1].clone()
        };
        assert_eq!(
            view.table(&NatResponse { pools: vec![shared] }, None, Paint::new(false)),
            "POOL  ADDRESSES                  PORTS       BLOCKS                    SESSIONS  CREATED  EXHAUSTED  NO BLOCK  TENANTS\n\
             out   192.0.2.0/28 198.51.100.7  1024-65535  3 of 126, 512 ports each        20      300          4         7  blue red\n"
        );
        assert_eq!(view.table(&NatResponse::default(), None, Paint::new(false)), "no NAT pools\n");
    }
}
