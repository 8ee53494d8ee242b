//! Users and groups by name.

use nix::unistd::{Group, User};

use crate::model::Flaw;
use crate::model::spec::Account;

/// The number of a user.
///
/// # Errors
/// [`Flaw`] if there is none of that name.
pub(super) fn user(account: &Account) -> Result<u32, Flaw> {
    find(account, "memif.socket_owner", "user", |name| Some(User::from_name(name).ok()??.uid.as_raw()))
}

/// The number of a group.
///
/// # Errors
/// [`Flaw`] if there is none of that name.
pub(super) fn group(account: &Account) -> Result<u32, Flaw> {
    find(account, "memif.socket_group", "group", |name| Some(Group::from_name(name).ok()??.gid.as_raw()))
}

fn find(account: &Account, field: &str, kind: &str, by_name: fn(&str) -> Option<u32>) -> Result<u32, Flaw> {
    match account {
        Account::Id(id) => Ok(*id),
        Account::Name(name) => by_name(name).ok_or_else(|| {
            Flaw::new(field, format!("there is no {kind} {name:?} here"))
                .remedy("see `getent` where quiverd runs, or write the number")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_found() {
        let name = |name: &str| Account::Name(name.into());
        assert_eq!((user(&name("root")), group(&name("root"))), (Ok(0), Ok(0)));
        assert_eq!(user(&Account::Id(4242)), Ok(4242));
        assert_eq!(user(&name("nobody knows")).unwrap_err().field, "memif.socket_owner");
        assert_eq!(group(&name("nobody knows")).unwrap_err().field, "memif.socket_group");
    }
}
