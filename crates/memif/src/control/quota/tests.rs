use proptest::prelude::*;

use super::*;

fn amount(descriptors: usize, memory: u64) -> Amount {
    Amount { descriptors, memory }
}

fn socket(descriptors: usize, memory: u64) -> Arc<Quota> {
    Arc::new(Quota::new(Scope::Socket, amount(descriptors, memory)))
}

fn member(of: &Arc<Quota>) -> Arc<Member> {
    Arc::new(Member::new(of, Amount::MAX))
}

#[test]
fn what_one_has_others_cannot_until_it_is_given_back() {
    let quota = socket(3, 100);
    // Nothing is promised to who can use nothing.
    let idle = Amount::default();
    let (one, other) = (Arc::new(Member::new(&quota, idle)), Arc::new(Member::new(&quota, idle)));
    let region = one.region(60).unwrap();
    assert_eq!(other.region(41).unwrap_err(), Reason::QuotaOfMemory { total: 101, max: 100 });
    assert_eq!(other.region(u64::MAX).unwrap_err(), Reason::QuotaOfMemory { total: u64::MAX, max: 100 });
    let more = other.region(40).unwrap();
    let ring = one.ring().unwrap();
    assert_eq!(other.ring().unwrap_err(), Reason::QuotaOfDescriptors(3));
    assert_eq!(quota.in_use(), amount(3, 100));
    drop(ring);
    assert_eq!(quota.in_use(), amount(2, 100));
    drop(region);
    assert_eq!(quota.in_use(), amount(1, 40));
    drop((one, more));
    assert_eq!(quota.in_use(), amount(0, 0));
}

/// Without bounds it must not forget what others have.
#[test]
fn sizes_that_nobody_has_are_refused_without_bounds_too() {
    let quota = socket(usize::MAX, u64::MAX);
    let (one, other) = (member(&quota), member(&quota));
    let region = one.region(60).unwrap();
    assert!(matches!(other.region(u64::MAX), Err(Reason::QuotaOfMemory { .. })));
    assert_eq!(quota.in_use(), amount(1, 60));
    drop(region);
    assert_eq!(quota.in_use(), amount(0, 0));
}

#[test]
fn half_is_promised_in_equal_parts() {
    let quota = socket(16, 1600);
    let (greedy, _second) = (member(&quota), member(&quota));
    let small = Arc::new(Member::new(&quota, amount(1, 50)));
    let late = member(&quota);
    // Two of 16 for each of four, but one for who can use one.
    let held: Vec<_> = (0..11).map(|_| greedy.region(100).unwrap()).collect();
    assert_eq!(greedy.ring().unwrap_err(), Reason::ShareOfDescriptors { total: 12, max: 16 });
    let theirs = (late.region(200).unwrap(), late.ring().unwrap());
    assert_eq!(late.ring().unwrap_err(), Reason::ShareOfDescriptors { total: 3, max: 16 });
    // 1100 + 200 + 50 promised to `small` + 200 to the second: 50 are left.
    assert_eq!(small.region(50 + 51).unwrap_err(), Reason::ShareOfMemory { total: 101, max: 1600 });
    let fits = small.region(100).unwrap();
    drop((held, theirs, fits));
    assert_eq!(quota.in_use(), amount(0, 0));
}

#[test]
fn who_is_alone_has_all_of_it() {
    let quota = socket(4, 100);
    let one = member(&quota);
    let all: Vec<_> = (0..4).map(|_| one.region(25).unwrap()).collect();
    assert_eq!(one.ring().unwrap_err(), Reason::QuotaOfDescriptors(4));
    drop(all);
}

fn socket_of(process: &Arc<Quota>, most: usize) -> Arc<Quota> {
    Arc::new(Quota::new(Scope::Socket, amount(most, u64::MAX)).within(Arc::clone(process)))
}

#[test]
fn sockets_share_the_process() {
    let process = Arc::new(Quota::new(Scope::Process, amount(8, u64::MAX)));
    let (one, other) = (socket_of(&process, 100), socket_of(&process, 100));
    let (greedy, modest) = (member(&one), member(&other));
    let held: Vec<_> = (0..6).map(|_| greedy.ring().unwrap()).collect();
    // What the process refuses isn't counted by the socket.
    assert_eq!(greedy.ring().unwrap_err(), Reason::QuotaOfProcess(8));
    assert_eq!((one.in_use(), process.in_use()), (amount(6, 0), amount(6, 0)));
    let theirs = [modest.ring().unwrap(), modest.ring().unwrap()];
    assert_eq!(modest.ring().unwrap_err(), Reason::QuotaOfProcess(8));
    drop((held, theirs));
    assert_eq!((one.in_use(), process.in_use()), (amount(0, 0), amount(0, 0)));
}

/// Where the process has less than one socket may have, interfaces of that socket are promised parts all the same.
#[test]
fn interfaces_of_one_socket_share_the_process() {
    let process = Arc::new(Quota::new(Scope::Process, amount(8, u64::MAX)));
    let (one, other) = (socket_of(&process, 100), socket_of(&process, 100));
    let (greedy, modest, third) = (member(&one), member(&one), member(&other));
    // One of eight for each of three.
    let held: Vec<_> = (0..6).map(|_| greedy.ring().unwrap()).collect();
    assert_eq!(greedy.ring().unwrap_err(), Reason::QuotaOfProcess(8));
    let theirs = (modest.ring().unwrap(), third.ring().unwrap());
    drop((held, theirs));
    assert_eq!((one.in_use(), process.in_use()), (amount(0, 0), amount(0, 0)));
}

/// An interface that is gone has no part, though what it had may be long in coming back.
#[test]
fn who_has_left_is_promised_nothing() {
    let process = Arc::new(Quota::new(Scope::Process, amount(8, u64::MAX)));
    let one = socket_of(&process, 100);
    let (gone, stays) = (member(&one), member(&one));
    let kept = gone.ring().unwrap();
    gone.leave();
    drop(gone);
    let all: Vec<_> = (0..7).map(|_| stays.ring().unwrap()).collect();
    assert_eq!(stays.ring().unwrap_err(), Reason::QuotaOfProcess(8));
    drop((kept, all));
    assert_eq!((one.in_use(), process.in_use()), (amount(0, 0), amount(0, 0)));
}

/// What was made while there was little is promised its part of more.
#[test]
fn a_bound_that_is_raised_is_promised_to_who_is_there() {
    let quota = socket(2, 100);
    let (greedy, modest) = (member(&quota), member(&quota));
    quota.set_max(amount(16, 1600));
    let held: Vec<_> = (0..12).map(|_| greedy.region(100).unwrap()).collect();
    assert_eq!(greedy.ring().unwrap_err(), Reason::ShareOfDescriptors { total: 13, max: 16 });
    assert_eq!(greedy.region(1).unwrap_err(), Reason::ShareOfMemory { total: 1201, max: 1600 });
    let theirs: Vec<_> = (0..4).map(|_| modest.region(100).unwrap()).collect();
    drop((held, theirs));
    assert_eq!(quota.in_use(), amount(0, 0));
}

/// The same of the process, which promises no more to a socket's members than the socket can give.
#[test]
fn a_socket_that_is_raised_or_lowered_has_its_part_of_the_process() {
    let process = Arc::new(Quota::new(Scope::Process, amount(16, u64::MAX)));
    let (one, other) = (socket_of(&process, 100), socket_of(&process, 1));
    let (greedy, modest) = (member(&one), member(&other));
    let take = |count: usize| (0..count).map(|_| greedy.ring()).collect::<Result<Vec<_>, _>>();
    // Half of 16 for two, but one for who can use one.
    for (max, promised) in [(1, 1), (100, 4), (2, 2)] {
        other.set_max(amount(max, u64::MAX));
        let held = take(16 - promised).unwrap();
        assert_eq!(greedy.ring().unwrap_err(), Reason::QuotaOfProcess(16));
        let theirs: Vec<_> = (0..promised).map(|_| modest.ring().unwrap()).collect();
        drop((held, theirs));
    }
    assert_eq!(process.in_use(), amount(0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever came before, as long as members don't come and go: nobody is refused its part, and nothing is beyond the bound.
    #[test]
    fn a_part_is_kept_for_each(
        max in 0_usize..64,
        members in 1_usize..6,
        steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..200),
    ) {
        let quota = socket(max, u64::MAX);
        let all: Vec<_> = (0..members).map(|_| member(&quota)).collect();
        let mut held: Vec<Vec<Lease>> = (0..members).map(|_| Vec::new()).collect();
        for (which, takes) in steps {
            let which = which.index(members);
            if takes {
                match all[which].ring() {
                    Ok(lease) => held[which].push(lease),
                    Err(_) => prop_assert!(held[which].len() >= max / 2 / members),
                }
            } else {
                held[which].pop();
            }
            let count: usize = held.iter().map(Vec::len).sum();
            prop_assert!(count <= max);
            prop_assert_eq!(quota.in_use().descriptors, count);
        }
    }
}

/// However many sockets there are, and whatever each may have.
#[test]
fn all_sockets_of_a_process_share_its_addresses() {
    let process = Arc::new(Quota::new(Scope::Process, amount(100, 1600)));
    let of = |quota: Quota| Arc::new(quota.within(Arc::clone(&process)));
    let sockets = [(); 2].map(|()| of(Quota::new(Scope::Socket, Amount::MAX)));
    let [greedy, modest] = [member(&sockets[0]), member(&sockets[1])];
    let most = greedy.region(1200).unwrap();
    assert_eq!(greedy.region(1).unwrap_err(), Reason::AddressesOfProcess(1600));
    assert_eq!(greedy.region(401).unwrap_err(), Reason::AddressesOfProcess(1600));
    let part = modest.region(400).unwrap();
    assert_eq!(modest.region(1).unwrap_err(), Reason::AddressesOfProcess(1600));
    drop((most, part));
    assert_eq!(process.in_use(), amount(0, 0));
}
