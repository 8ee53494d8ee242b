//! Objects that name others: those have to be there, and stay while they are named.

use api::v1::{ApplyRequest, Kind, ObjectRef};

use super::common::{World, apply, controller, outcome, upserts};

const SET: &str = "[[address_set]]\nname = \"pods\"\nmembers = [\"10.0.0.2\"]";
const LIST: &str = "[[acl]]\nname = \"web\"\nrules = [{ action = \"permit\" }, { action = \"deny\", destination_sets = [\"pods\"] }]";
const TENANT: &str = "[[tenant]]\nname = \"red\"\nforward_services = [\"acl\"]\nreverse_services = [\"acl\"]\nacls = [\"web\"]";
const ENDPOINT: &str = "[[endpoint]]\nname = \"a\"\naddresses = [\"10.0.0.2\"]\negress_acls = [\"web\"]";

#[test]
fn what_rules_and_endpoints_refer_to_is_there() {
    for (object, name, field, missing) in [
        (LIST, "web", "rules[1].destination_sets", "there is no address_set pods"),
        (TENANT, "red", "acls[0]", "there is no acl web"),
        (ENDPOINT, "a", "egress_acls[0]", "there is no acl web"),
    ] {
        let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
        let mut controller = controller(directory.path(), &world);
        let response = controller.apply(&upserts(object)).unwrap();
        let answer = outcome(&response, name);
        assert!(answer.starts_with(&format!("refused {field}: ")) && answer.contains(missing), "{answer}");
    }
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    // In any order, in one batch.
    apply(&mut controller, &upserts(&[TENANT, ENDPOINT, LIST, SET].join("\n")));
    let delete = |kind, name: &str| ApplyRequest {
        deletes: vec![ObjectRef::new(kind, name)],
        ..ApplyRequest::default()
    };
    for (kind, name, user) in
        [(Kind::AddressSet, "pods", "acl web refers to it"), (Kind::Acl, "web", "refers to it")]
    {
        let response = controller.apply(&delete(kind, name)).unwrap();
        assert!(!response.committed && outcome(&response, name).contains(user), "{response:?}");
    }
    for (kind, name) in
        [(Kind::Tenant, "red"), (Kind::Endpoint, "a"), (Kind::Acl, "web"), (Kind::AddressSet, "pods")]
    {
        apply(&mut controller, &delete(kind, name));
    }
}

const POLICER: &str = "[[policer]]\nname = \"gold\"\ncir = 1000000\ncbs = 3000";
const METERED: &str =
    "[[tenant]]\nname = \"red\"\nreverse_services = [\"policer\"]\nreverse_policer = \"gold\"";
const PORT: &str = "[[interface]]\nname = \"a\"\nsink = {}\npolicer = \"gold\"";

#[test]
fn whoever_is_metered_names_a_policer_that_is_there() {
    for (object, name, field) in [(METERED, "red", "reverse_policer"), (PORT, "a", "policer")] {
        let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
        let mut controller = controller(directory.path(), &world);
        let response = controller.apply(&upserts(object)).unwrap();
        let answer = outcome(&response, name);
        let expected = format!("refused {field}: there is no policer gold");
        assert!(answer.starts_with(&expected), "{answer}");
    }
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    apply(&mut controller, &upserts(&[METERED, PORT, POLICER].join("\n")));
    let each = format!("{POLICER}\nper_session = true");
    let response = controller.apply(&upserts(&each)).unwrap();
    let answer = outcome(&response, "gold");
    assert!(
        answer.starts_with("refused per_session: ") && answer.contains("interface a has none"),
        "{answer}"
    );
    let delete = |kind, name: &str| ApplyRequest {
        deletes: vec![ObjectRef::new(kind, name)],
        ..ApplyRequest::default()
    };
    for (kind, user) in [(Kind::Interface, "a"), (Kind::Tenant, "red")] {
        let response = controller.apply(&delete(Kind::Policer, "gold")).unwrap();
        let answer = outcome(&response, "gold");
        assert!(!response.committed && answer.contains("refers to it"), "{answer}");
        apply(&mut controller, &delete(kind, user));
    }
    apply(&mut controller, &delete(Kind::Policer, "gold"));
}
