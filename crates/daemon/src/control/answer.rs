//! The answer to a batch.

use api::v1::{
    Applied, ApplyCounts, ApplyRequest, ApplyResponse, Change, ObjectResult, Pending, Wait,
    object_result::Outcome,
};

use crate::model::{Batch, Key, Model, Readiness, Refusal, RouteKey, SessionShares, Standing, Undo, Waiting};

/// Most results and most changes in one answer: it has to fit a message.
pub(super) const MAX_LISTED: usize = 10_000;

/// The answer to a batch, being written.
pub(super) struct Answer<'a> {
    batch: &'a Batch,
    terse: bool,
    response: ApplyResponse,
}

impl<'a> Answer<'a> {
    pub(super) fn new(request: &ApplyRequest, batch: &'a Batch, mut changes: Vec<Change>) -> Self {
        let left_out = changes.len().saturating_sub(MAX_LISTED);
        changes.truncate(MAX_LISTED);
        Self {
            batch,
            terse: request.terse || batch.len() > MAX_LISTED,
            response: ApplyResponse {
                committed: !request.dry_run,
                counts: Some(ApplyCounts::default()),
                changes,
                left_out: left_out as u64,
                ..ApplyResponse::default()
            },
        }
    }

    /// Objects that are wrong in themselves.
    pub(super) fn refused(generation: u64, mut results: Vec<ObjectResult>) -> ApplyResponse {
        let refused = results.len();
        results.truncate(MAX_LISTED);
        ApplyResponse {
            generation,
            committed: false,
            left_out: (refused - results.len()) as u64,
            counts: Some(ApplyCounts { refused: refused as u64, ..ApplyCounts::default() }),
            results,
            changes: Vec::new(),
        }
    }

    /// Objects that are wrong together, or that the dataplane refused.
    pub(super) fn conflicting(generation: u64, refusals: Vec<Refusal>) -> ApplyResponse {
        Self::refused(
            generation,
            refusals.into_iter().map(|refusal| refusal.flaw.refuse(refusal.key.to_api())).collect(),
        )
    }

    /// Everything was accepted: says where it stands, and what else was moved by it. `late`: why workers don't have it yet.
    pub(super) fn accepted(
        &mut self,
        model: &Model,
        [before, after]: [&Readiness; 2],
        late: Option<&str>,
        undo: &Undo,
        moved: &[RouteKey],
        shares: SessionShares,
    ) {
        let batch = self.batch;
        for key in batch.upserts() {
            let standing = match (after.standing(model, &key).unwrap_or(Standing::Ready), late) {
                (Standing::Ready, Some(reason)) => {
                    Standing::Pending(vec![Waiting { on: None, reason: reason.into() }])
                }
                (standing, _) => standing,
            };
            let counts = self.response.counts.get_or_insert_default();
            match standing {
                Standing::Ready => counts.applied += 1,
                _ => counts.pending += 1,
            }
            let warning = match &key {
                Key::Tenant(name) => {
                    model.tenants.get(name).and_then(|it| shares.warning(it.spec.max_sessions))
                }
                _ => None,
            };
            if !self.terse || standing != Standing::Ready || warning.is_some() {
                self.push(&key, &standing, warning);
            }
        }
        if !self.terse {
            for key in &batch.deletes {
                self.push(key, &Standing::Ready, None);
            }
        }
        let counts = self.response.counts.get_or_insert_default();
        counts.unchanged = undo.unchanged;
        counts.deleted = undo.deleted;
        // Those of the batch have been told of, and there may be as many of them as are listed at all.
        let moved = moved.iter().filter(|route| !batch.contains_route(route));
        let (changed, more) = changed_standings(model, before, after, moved);
        for (key, standing) in changed {
            if !batch.contains(&key) {
                self.push(&key, &standing, None);
            }
        }
        self.response.left_out += more.count() as u64;
    }

    pub(super) fn finish(mut self, generation: u64) -> ApplyResponse {
        self.response.generation = generation;
        self.response
    }

    fn push(&mut self, key: &Key, standing: &Standing, warning: Option<String>) {
        if self.response.results.len() >= MAX_LISTED {
            self.response.left_out += 1;
            return;
        }
        let outcome = match standing {
            Standing::Ready => Outcome::Applied(Applied {}),
            Standing::Partial(waits) | Standing::Pending(waits) => {
                Outcome::Pending(Pending { waits_for: waits.iter().map(Waiting::to_api).collect() })
            }
            Standing::Failed(reason) => Outcome::Pending(Pending {
                waits_for: vec![Wait { object: None, reason: reason.to_string() }],
            }),
        };
        let (object, warnings) = (Some(key.to_api()), Vec::from_iter(warning));
        self.response.results.push(ObjectResult { object, outcome: Some(outcome), warnings });
    }
}

/// Objects that exist and stand elsewhere than before, ordered; of the routes only `moved` are looked at, each of which is there once. More routes than are
/// listed come by themselves.
pub(super) fn changed_standings<'a>(
    model: &'a Model,
    before: &'a Readiness,
    after: &'a Readiness,
    moved: impl Iterator<Item = &'a RouteKey>,
) -> (Vec<(Key, Standing)>, impl Iterator<Item = (Key, Standing)>) {
    let changed = |key: Key| {
        let standing = after.standing(model, &key)?;
        (before.standing(model, &key).as_ref() != Some(&standing)).then_some((key, standing))
    };
    let others = (model.vrfs.keys().cloned().map(Key::Vrf))
        .chain(model.bridges.keys().cloned().map(Key::Bridge))
        .chain(model.interfaces.keys().cloned().map(Key::Interface))
        .chain(model.neighbors.keys().cloned().map(Key::Neighbor))
        .chain(model.tenants.keys().cloned().map(Key::Tenant))
        .chain(model.nat_pools.keys().cloned().map(Key::NatPool))
        .chain(model.policers.keys().cloned().map(Key::Policer))
        .chain(model.vips.keys().cloned().map(Key::Vip))
        .chain(model.acls.keys().cloned().map(Key::Acl))
        .chain(model.address_sets.keys().cloned().map(Key::AddressSet))
        .chain(model.endpoints.keys().cloned().map(Key::Endpoint));
    let mut list: Vec<_> = others.filter_map(changed).collect();
    // More than this nobody reads one by one.
    let mut routes = moved.cloned().map(Key::Route).filter_map(changed);
    let mut listed: Vec<_> = routes.by_ref().take(MAX_LISTED).collect();
    listed.sort_by(|(one, _), (other, _)| one.cmp(other));
    list.extend(listed);
    (list, routes)
}
