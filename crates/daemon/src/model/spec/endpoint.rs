//! Endpoints.

use std::collections::HashSet;
use std::sync::Arc;

use api::v1::Endpoint;
use features::session::acl::control::EndpointConfig;

use crate::model::{Flaw, Name, fields};

/// An endpoint; see [`Endpoint`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSpec {
    /// Unique name.
    pub name: Name,
    /// What it is; addresses are ordered.
    pub config: Arc<EndpointConfig>,
}

impl EndpointSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(endpoint: &Endpoint) -> Result<Self, Flaw> {
        let context = u16::try_from(endpoint.context).map_err(|_| {
            Flaw::new("context", format!("{} is out of range", endpoint.context)).remedy("take 0 to 65535")
        })?;
        let mut addresses = Vec::with_capacity(endpoint.addresses.len());
        for (index, text) in endpoint.addresses.iter().enumerate() {
            addresses.push(fields::address(&format!("addresses[{index}]"), text)?);
        }
        addresses.sort_unstable();
        if let Some([one, _]) = addresses.array_windows().find(|[one, other]| one == other) {
            return Err(Flaw::new("addresses", format!("{one} appears twice")).remedy("leave one out"));
        }
        if addresses.is_empty() {
            return Err(Flaw::new("addresses", "there is none").remedy("say whose sessions are meant"));
        }
        Ok(Self {
            name: fields::name("name", &endpoint.name)?,
            config: Arc::new(EndpointConfig {
                context,
                addresses,
                ingress: lists("ingress_acls", &endpoint.ingress_acls)?,
                egress: lists("egress_acls", &endpoint.egress_acls)?,
            }),
        })
    }

    /// The canonical form.
    pub fn to_api(&self) -> Endpoint {
        let text = |names: &[Arc<str>]| names.iter().map(ToString::to_string).collect();
        let config = &self.config;
        Endpoint {
            name: self.name.to_string(),
            context: config.context.into(),
            addresses: config.addresses.iter().map(ToString::to_string).collect(),
            ingress_acls: text(&config.ingress),
            egress_acls: text(&config.egress),
        }
    }
}

/// Names of lists in the order in which they are said, none twice.
///
/// # Errors
/// [`Flaw`] naming the element.
pub(super) fn lists(field: &str, texts: &[String]) -> Result<Vec<Arc<str>>, Flaw> {
    let mut names: Vec<Arc<str>> = Vec::with_capacity(texts.len());
    let mut known = HashSet::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let name: Arc<str> = fields::name(&format!("{field}[{index}]"), text)?.to_string().into();
        if !known.insert(Arc::clone(&name)) {
            return Err(Flaw::new(field, format!("{name} appears twice")).remedy("leave one out"));
        }
        names.push(name);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_and_addresses_are_ordered() {
        let said = Endpoint {
            name: "pod-a".into(),
            context: 7,
            addresses: vec!["10.0.0.2".into(), "fd00::2".into()],
            ingress_acls: vec!["z".into(), "a".into()],
            egress_acls: vec![],
        };
        assert_eq!(EndpointSpec::parse(&said).unwrap().to_api(), said);
        let turned = Endpoint { addresses: vec!["fd00::2".into(), "10.0.0.2".into()], ..said.clone() };
        assert_eq!(EndpointSpec::parse(&turned).unwrap().to_api(), said);
        for (wrong, field) in [
            (Endpoint { context: 65536, ..said.clone() }, "context"),
            (Endpoint { addresses: vec![], ..said.clone() }, "addresses"),
            (Endpoint { addresses: vec!["10.0.0.0/8".into()], ..said.clone() }, "addresses[0]"),
            (Endpoint { egress_acls: vec!["a".into(), "a".into()], ..said }, "egress_acls"),
        ] {
            assert_eq!(EndpointSpec::parse(&wrong).unwrap_err().field, field);
        }
    }
}
