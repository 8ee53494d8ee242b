//! What tenants have of the workers' session tables for certain.

/// How the tables are shared out.
#[derive(Debug, Clone, Copy)]
pub struct SessionShares {
    /// Sessions that all workers have room for.
    room: u64,
    /// Quotas of all tenants together.
    quotas: u64,
    /// The same, each no more than there is room for.
    weights: u128,
}

impl SessionShares {
    /// Of tenants with these quotas.
    pub fn new(room: u64, quotas: impl Iterator<Item = u32> + Clone) -> Self {
        let weights = quotas.clone().map(|quota| u128::from(u64::from(quota).min(room))).sum();
        Self { room, quotas: quotas.map(u64::from).sum(), weights }
    }

    /// Sessions that a tenant with this quota has room for whatever others have.
    #[must_use]
    pub fn guaranteed(&self, quota: u32) -> u64 {
        let quota = u64::from(quota).min(self.room);
        if u128::from(self.room) >= self.weights {
            return quota;
        }
        u64::try_from(u128::from(self.room) * u128::from(quota) / self.weights).unwrap_or(quota)
    }

    /// What a tenant's owner should know where quotas are more than there is room for.
    #[must_use]
    pub fn warning(&self, quota: u32) -> Option<String> {
        let Self { room, quotas, .. } = *self;
        (quotas > room).then(|| {
            format!(
                "max_sessions of all tenants are {quotas}, and workers have room for {room}: {} of its {quota} are \
                 guaranteed; lower max_sessions, or raise workers.sessions",
                self.guaranteed(quota)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_quotas_where_these_do_not_fit() {
        let shares = |room, quotas: &[u32]| {
            let shares = SessionShares::new(room, quotas.iter().copied());
            quotas.iter().map(|quota| shares.guaranteed(*quota)).collect::<Vec<_>>()
        };
        assert_eq!(shares(1000, &[100, 300]), [100, 300]);
        assert_eq!(shares(1000, &[400, 600]), [400, 600]);
        assert_eq!(shares(1000, &[1000, 3000]), [500, 500]);
        assert_eq!(shares(900, &[600, 1200]), [360, 540]);
        assert_eq!(shares(1000, &[5000]), [1000]);
        assert_eq!(shares(u64::MAX, &[u32::MAX; 3]), [u64::from(u32::MAX); 3]);
        assert_eq!(shares(0, &[7]), [0]);
        let over = SessionShares::new(900, [600, 1200].into_iter());
        assert!(
            over.warning(1200).unwrap().contains("are 1800, and workers have room for 900: 540 of its 1200")
        );
        assert_eq!(SessionShares::new(1800, [600, 1200].into_iter()).warning(600), None);
    }
}
