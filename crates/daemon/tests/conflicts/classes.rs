//! Of tenants whose sessions are others': classes.

use api::v1::{ApplyRequest, Kind, ObjectRef};

use super::common::{World, apply, controller, outcome, upserts};

const LIST: &str = "[[acl]]\nname = \"web\"\nrules = [{ action = \"permit\" }]\n";
const BLUE: &str = "[[tenant]]\nname = \"blue\"\n";
const RED: &str = "[[tenant]]\nname = \"red\"\nclasses = [{ acl = \"web\", tenant = \"blue\" }]\n";

#[test]
fn what_a_class_names_is_there_and_stays() {
    for (there, field, missing) in [
        (BLUE, "classes[0].acl", "there is no acl web"),
        (LIST, "classes[0].tenant", "there is no tenant blue"),
    ] {
        let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
        let mut controller = controller(directory.path(), &world);
        let response = controller.apply(&upserts(&format!("{there}{RED}"))).unwrap();
        let answer = outcome(&response, "red");
        assert!(answer.starts_with(&format!("refused {field}: ")) && answer.contains(missing), "{answer}");
    }
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    // In any order, in one batch.
    apply(&mut controller, &upserts(&format!("{RED}{BLUE}{LIST}")));
    let delete = |kind, name: &str| ApplyRequest {
        deletes: vec![ObjectRef::new(kind, name)],
        ..ApplyRequest::default()
    };
    for (kind, name) in [(Kind::Acl, "web"), (Kind::Tenant, "blue")] {
        let response = controller.apply(&delete(kind, name)).unwrap();
        let answer = outcome(&response, name);
        assert!(!response.committed && answer.contains("tenant red refers to it"), "{answer}");
    }
    for (kind, name) in [(Kind::Tenant, "red"), (Kind::Tenant, "blue"), (Kind::Acl, "web")] {
        apply(&mut controller, &delete(kind, name));
    }
}

/// (what there is besides the list, what comes then, who is refused, the field, part of the reason)
const TABLE: &[(&str, &str, &str, &str, &str)] = &[
    (
        "[[tenant]]\nname = \"blue\"\ncontext = 7",
        RED,
        "red",
        "context",
        "tenant blue has another context, and sessions of one can be the other's",
    ),
    (
        "[[tenant]]\nname = \"blue\"\n[[tenant]]\nname = \"red\"\nclasses = [{ acl = \"web\", tenant = \"blue\" }]",
        "[[tenant]]\nname = \"blue\"\ncontext = 7",
        "blue",
        "context",
        "tenant red has another context, and sessions of one can be the other's",
    ),
    (
        "[[tenant]]\nname = \"green\"\n[[tenant]]\nname = \"blue\"\nclasses = [{ acl = \"web\", tenant = \"green\" }]",
        RED,
        "red",
        "classes[0].tenant",
        "tenant blue has classes of its own, which nobody would ask",
    ),
    (
        "[[tenant]]\nname = \"green\"\n[[tenant]]\nname = \"blue\"\n[[tenant]]\nname = \"red\"\nclasses = [{ acl = \"web\", tenant = \"blue\" }]",
        "[[tenant]]\nname = \"blue\"\nclasses = [{ acl = \"web\", tenant = \"green\" }]",
        "blue",
        "classes",
        "tenant red has this tenant as a class, whose own classes nobody asks",
    ),
    // What one is by itself, whatever else there is.
    (
        BLUE,
        "[[tenant]]\nname = \"red\"\nclasses = [{ acl = \"web\", tenant = \"red\" }]",
        "red",
        "classes[0].tenant",
        "is the tenant itself",
    ),
    (
        BLUE,
        "[[tenant]]\nname = \"red\"\nclasses = [{ acl = \"web\", tenant = \"blue\" }]\nslow_path = { fragments = \"pass\" }",
        "red",
        "slow_path.fragments",
        "passes by the services of all classes",
    ),
];

/// Whichever of the two tenants comes last.
#[test]
fn what_cannot_be_a_class_is_refused_by_name() {
    for (first, second, name, field, reason) in TABLE {
        let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
        let mut controller = controller(directory.path(), &world);
        apply(&mut controller, &upserts(&format!("{LIST}{first}")));
        let response = controller.apply(&upserts(second)).unwrap();
        assert!(!response.committed, "{second}: accepted");
        let answer = outcome(&response, name);
        assert!(answer.starts_with(&format!("refused {field}: ")) && answer.contains(reason), "{answer}");
        assert_eq!(response.generation, 1, "{second}");
    }
}
