//! Packets that aren't simply one of a session's, by case, and what a tenant has done with them.
//!
//! SFDP has a node for each such case (`sp-ip4-unknown-proto`, `sp-ip4-icmp4-error`, `sp-ip4-reassembly`, `sp-ip4-table-overflow`, and the same of IPv6). Here a
//! tenant says for each one of three things; both IP versions are equal.

/// What becomes of such a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowAction {
    /// The node that is there for it has it.
    #[default]
    Handle,
    /// It goes on without a session, and is counted.
    Pass,
    /// It is dropped, by a reason of its own.
    Drop,
}

impl SlowAction {
    /// As configuration calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handle => "handle",
            Self::Pass => "pass",
            Self::Drop => "drop",
        }
    }
}

/// Why a packet isn't simply one of a session's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Case {
    /// Its protocol has no sessions.
    UnknownProtocol,
    /// It ends before its transport header does.
    TooShort,
    /// An ICMP error about no session.
    UnrelatedErrors,
    /// An ICMP error about a session.
    RelatedErrors,
    /// A fragment.
    Fragments,
    /// No session can be made for it: quota, rate or table.
    Overflow,
}

/// Number of cases.
pub const CASES: usize = Case::ALL.len();

impl Case {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::UnknownProtocol,
        Self::TooShort,
        Self::UnrelatedErrors,
        Self::RelatedErrors,
        Self::Fragments,
        Self::Overflow,
    ];

    /// As configuration calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownProtocol => "unknown_protocol",
            Self::TooShort => "too_short",
            Self::UnrelatedErrors => "unrelated_errors",
            Self::RelatedErrors => "related_errors",
            Self::Fragments => "fragments",
            Self::Overflow => "overflow",
        }
    }

    /// What may be said of it. What has no node can't be handled; and an error about a session that passed without it would pass untranslated, and where the session
    /// is blocked.
    #[must_use]
    pub const fn actions(self) -> &'static [SlowAction] {
        use SlowAction::{Drop, Handle, Pass};
        match self {
            Self::UnknownProtocol | Self::TooShort | Self::UnrelatedErrors | Self::Overflow => &[Pass, Drop],
            Self::RelatedErrors => &[Handle, Drop],
            Self::Fragments => &[Handle, Pass, Drop],
        }
    }

    /// Whether packets that it lets pass might have been ones of sessions: so they pass by rules, translation and engines, too.
    #[must_use]
    pub const fn passes_by_services(self) -> bool {
        matches!(self, Self::Fragments | Self::Overflow)
    }

    /// Whether `untracked` says what is done where nothing else does.
    #[must_use]
    pub const fn is_untracked(self) -> bool {
        matches!(self, Self::UnknownProtocol | Self::TooShort | Self::UnrelatedErrors)
    }
}

/// What a tenant has done in each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowPath([SlowAction; CASES]);

impl Default for SlowPath {
    fn default() -> Self {
        Self::untracked(SlowAction::Pass)
    }
}

impl SlowPath {
    /// The default, with `action` for what can have no session.
    #[must_use]
    pub const fn untracked(action: SlowAction) -> Self {
        Self([action, action, action, SlowAction::Handle, SlowAction::Handle, SlowAction::Drop])
    }

    /// The same with another action in that case.
    #[must_use]
    pub const fn with(mut self, case: Case, action: SlowAction) -> Self {
        self.0[case as usize] = action;
        self
    }

    /// What is done in that case.
    #[inline(always)]
    #[must_use]
    pub const fn action(&self, case: Case) -> SlowAction {
        self.0[case as usize]
    }

    /// Whether such packets are dropped.
    #[must_use]
    pub fn drops(&self, case: Case) -> bool {
        self.action(case) == SlowAction::Drop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_what_may_be_said() {
        for (place, case) in Case::ALL.into_iter().enumerate() {
            assert_eq!(case as usize, place, "{}", case.name());
            for action in [SlowAction::Pass, SlowAction::Drop] {
                let default = SlowPath::untracked(action).action(case);
                assert!(case.actions().contains(&default), "{} {}", case.name(), default.name());
                assert_eq!(case.is_untracked(), default != SlowPath::untracked(other(action)).action(case));
            }
        }
    }

    fn other(action: SlowAction) -> SlowAction {
        if action == SlowAction::Pass { SlowAction::Drop } else { SlowAction::Pass }
    }

    #[test]
    fn one_case_is_changed_alone() {
        let changed = SlowPath::default().with(Case::Fragments, SlowAction::Drop);
        for case in Case::ALL {
            assert_eq!(
                changed.drops(case),
                matches!(case, Case::Fragments | Case::Overflow),
                "{}",
                case.name()
            );
        }
    }
}
