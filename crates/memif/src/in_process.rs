//! A connection within one process.

use std::sync::Arc;

use memory::region::SealPolicy;

use crate::control::{ClientMachine, Interfaces, Limits, ServerMachine};
use crate::{ClientConfig, Connection, Error, InterfaceError, QueueConfig, Reason, ServerConfig};

/// A client and a server connected to each other in one process: both ends of the real handshake, over a
/// region that is mapped twice, without a socket. Queues are named from the client's side: the server
/// receives from its `tx_queues`.
///
/// # Errors
/// [`InterfaceError`] if memory or descriptors can't be had, or a setting is out of range.
pub fn in_process(config: &QueueConfig) -> Result<(Connection, Connection), InterfaceError> {
    let (client, server) =
        connect(config).map_err(|cause| InterfaceError { interface: "in process".into(), cause })?;
    Ok((client.of("in process, client"), server.of("in process, server")))
}

fn connect(config: &QueueConfig) -> Result<(Connection, Connection), Error> {
    struct One(Arc<ServerConfig>);
    impl Interfaces for One {
        fn config(&self, _: u32) -> Option<Arc<ServerConfig>> {
            Some(Arc::clone(&self.0))
        }

        fn claim(&mut self, _: u32) -> Result<(), Reason> {
            Ok(())
        }
    }

    let mut interfaces = One(Arc::new(ServerConfig {
        max_packet: config.max_packet,
        max_memory: u64::MAX,
        max_holes: u64::MAX,
        // Both ends are ours, and a pool is mapped by several.
        seals: SealPolicy::Allow,
        ..Default::default()
    }));
    let (mut server, hello) = ServerMachine::new(Limits::of("in-process", [&*interfaces.0]));
    let mut client = ClientMachine::new(ClientConfig { queues: config.clone(), ..ClientConfig::default() });
    let mut to_client = hello;
    let mut server_end = None;
    loop {
        let step = client.receive(&to_client.encode(), Vec::new())?;
        if let (Some(client_end), Some(server_end)) = (step.connection, server_end.take()) {
            return Ok((client_end, server_end));
        }
        let (message, fd) = step.send.ok_or(Reason::Closed)?;
        let step = server.receive(&message.encode(), fd.into_iter().collect(), &mut interfaces)?;
        server_end = step.connection;
        to_client = step.reply.ok_or(Reason::Closed)?;
    }
}
