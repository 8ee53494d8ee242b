//! What is asked of quiverd.

use std::time::Instant;

use api::escape::Texts as _;
use api::v1::{
    DropsRequest, DropsResponse, InterfacesRequest, InterfacesResponse, RuntimeRequest, RuntimeResponse,
    VersionRequest, VersionResponse,
};

use crate::context::Client;
use crate::error::{Doing, Error};

/// Everything at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// When.
    pub(super) at: Instant,
    /// Interfaces.
    pub(super) interfaces: InterfacesResponse,
    /// Workers and nodes.
    pub(super) runtime: RuntimeResponse,
    /// Drops.
    pub(super) drops: DropsResponse,
    /// quiverd itself.
    pub(super) version: VersionResponse,
}

/// Asks.
pub(super) async fn take(client: &mut Client) -> Result<Sample, Error> {
    let mut interfaces = client.interfaces(InterfacesRequest::default()).await.doing("interfaces")?;
    let mut runtime = client.runtime(RuntimeRequest {}).await.doing("runtime")?;
    let mut drops = client.drops(DropsRequest {}).await.doing("drops")?;
    let mut version = client.version(VersionRequest {}).await.doing("version")?;
    interfaces.escape();
    runtime.escape();
    drops.escape();
    version.escape();
    Ok(Sample { at: Instant::now(), interfaces, runtime, drops, version })
}
