//! What the examples share: a port as the command line names it.

use memif::app::Port;
use memif::{Address, ClientConfig, ClientTiming, InterfaceError, ListenerSettings, Mode, ServerConfig};

/// How `usage` texts name a port.
pub const PORT: &str = "client|server ADDRESS ID";

/// Opens the port of `client|server ADDRESS ID`; `None` if that is none. An address is a path, or `@name`.
pub fn open(name: &str, mode: Mode, words: [&str; 3]) -> Option<Result<Port, InterfaceError>> {
    let [role, address, id] = words;
    let (Ok(address), Ok(id)) = (address.parse::<Address>(), id.parse()) else { return None };
    let name = format!("{name}{id}");
    match role {
        "client" => {
            let config = ClientConfig { id, mode, name, ..ClientConfig::default() };
            Some(Port::client(address, config, ClientTiming::default()))
        }
        "server" => {
            let config = ServerConfig { mode, name, ..ServerConfig::default() };
            Some(Port::server(&address, id, config, ListenerSettings::default()))
        }
        _ => None,
    }
}
