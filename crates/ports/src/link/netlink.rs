//! A conversation with the kernel, inside a network namespace.

use crate::PortError;
use crate::netns::Netns;
use rtnetlink::Handle;
use std::io;

/// Runs `talk` with a netlink connection in `netns`, to its end.
pub(super) fn with<R, F>(netns: &Netns, talk: impl FnOnce(Handle) -> F + Send) -> Result<R, PortError>
where
    R: Send,
    F: Future<Output = Result<R, PortError>>,
{
    netns.run(|| {
        let failed =
            |error| PortError::system(format!("network namespace {netns}"), "talk to the kernel", error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        runtime.block_on(async {
            let (connection, handle, _) = rtnetlink::new_connection().map_err(failed)?;
            let task = tokio::spawn(connection);
            let result = talk(handle).await;
            task.abort();
            result
        })
    })?
}

/// What the kernel said.
pub(super) fn to_io(error: rtnetlink::Error) -> io::Error {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.to_io(),
        other => io::Error::other(other),
    }
}
