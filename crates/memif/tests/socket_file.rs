//! Where a listener has its socket: the file's owner and mode, what is in its place, and who may connect to it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::time::Instant;

use memif::{Address, Client, ClientConfig, ClientEvent, ClientTiming, Error, Listener, ListenerSettings};

/// Only as root: who is nobody can't give a file away.
#[test]
fn a_socket_file_has_the_owner_it_is_given() {
    use std::os::unix::fs::MetadataExt;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let settings =
        ListenerSettings { mode: 0o620, owner: Some(4242), group: Some(4243), ..Default::default() };
    let bound = Listener::bind(&Address::path(&path), settings);
    if !rustix::process::geteuid().is_root() {
        assert!(matches!(bound.unwrap_err().cause, Error::Socket { step: "chown", .. }));
        assert!(!path.exists(), "it is removed again");
        return;
    }
    let mut listener = bound.unwrap();
    let file = || {
        let file = std::fs::metadata(&path).unwrap();
        (file.permissions().mode() & 0o777, file.uid(), file.gid())
    };
    assert_eq!(file(), (0o620, 4242, 4243));
    listener.set_file(0o600, None, Some(7)).unwrap();
    assert_eq!(file(), (0o600, 0, 7));
}

/// A peer that may write to the socket's directory puts something else in the file's place.
#[test]
fn hostile_link_in_place_of_the_socket_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "").unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let mut listener = Listener::bind(&Address::path(&path), ListenerSettings::default()).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&secret, &path).unwrap();
    let refused = listener.set_file(0o666, None, None).unwrap_err();
    assert!(matches!(refused.cause, Error::Socket { step: "find the socket's file", .. }), "{refused}");
    assert_eq!(mode(&secret), 0o600);
    // Another one's socket as well, be it by a hard link.
    std::fs::remove_file(&path).unwrap();
    let other = directory.path().join("other.sock");
    let _other = std::os::unix::net::UnixListener::bind(&other).unwrap();
    std::fs::set_permissions(&other, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::hard_link(&other, &path).unwrap();
    listener.set_file(0o666, None, None).unwrap_err();
    assert_eq!(mode(&other), 0o600);
    // What isn't ours isn't removed either.
    drop(listener);
    assert!(path.exists());
}

/// Only as root: others may connect to what is their own.
#[test]
fn who_may_not_connect_to_the_file_is_told_so() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: not root");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let address = Address::path(directory.path().join("memif.sock"));
    let settings = ListenerSettings { mode: 0o600, ..ListenerSettings::default() };
    let bound = |settings: &ListenerSettings| Listener::bind(&address, settings.clone());
    let _listener = bound(&settings).unwrap();
    let denied = |error: &Error| {
        let Error::Denied { path } = error else { panic!("{error:?}") };
        let words = "permission denied: its mode, owner and group must let us write to it, its directories let us pass";
        assert_eq!(error.to_string(), format!("{}: {words}", path.display()));
    };
    let open = |mode| std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(mode)).unwrap();
    for directory_mode in [0o777, 0o700] {
        open(directory_mode);
        // Of this thread only, which ends with the test.
        let as_nobody = || {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let client = Client::new(address.clone(), ClientConfig::default(), ClientTiming::default());
            let told = client.unwrap().process(Instant::now());
            let [ClientEvent::Unreachable { error }] = &told[..] else { panic!("{told:?}") };
            denied(error);
            assert!(
                memif::app::LinkEvent::Unreachable(error.clone()).to_string().starts_with("can't connect: ")
            );
            if directory_mode == 0o777 {
                denied(&bound(&settings).unwrap_err().cause);
            }
        };
        std::thread::scope(|scope| scope.spawn(as_nobody).join()).unwrap();
    }
}

#[test]
fn a_socket_file_has_its_mode_replaces_a_stale_one_and_goes_away() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let address = Address::path(&path);
    // What a process that was killed leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let settings = ListenerSettings { mode: 0o666, ..ListenerSettings::default() };
    let listener = Listener::bind(&address, settings).unwrap();
    let meta = std::fs::metadata(&path).unwrap();
    assert!(meta.file_type().is_socket());
    assert_eq!(meta.permissions().mode() & 0o777, 0o666);
    let second = Listener::bind(&address, ListenerSettings::default()).unwrap_err();
    assert!(matches!(second.cause, Error::InUse { .. }), "{second}");
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn bad_places_for_a_socket_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let bind = |path: &std::path::Path| {
        Listener::bind(&Address::path(path), ListenerSettings::default()).unwrap_err().cause
    };
    assert!(matches!(bind(&file), Error::NotASocket { .. }));
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    assert!(matches!(bind(&directory.path().join("no/such/socket")), Error::NoDirectory { .. }));
    let nowhere = Address::abstract_name("x").in_netns("no-such-namespace");
    let error = Listener::bind(&nowhere, ListenerSettings::default()).unwrap_err();
    assert!(matches!(error.cause, Error::Netns { .. }), "{error}");
    // Nobody writes to it, so that to open it would wait for ever.
    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = Address::abstract_name("x").in_netns(pipe.to_str().unwrap());
    let error = Listener::bind(&pipe, ListenerSettings::default()).unwrap_err();
    assert!(matches!(error.cause, Error::Netns { .. }), "{error}");
    let abstract_name = Address::abstract_name(format!("quiver-test-twice-{}", std::process::id()));
    let _first = Listener::bind(&abstract_name, ListenerSettings::default()).unwrap();
    let error = Listener::bind(&abstract_name, ListenerSettings::default()).unwrap_err();
    assert!(matches!(error.cause, Error::InUse { .. }), "{error}");
}
