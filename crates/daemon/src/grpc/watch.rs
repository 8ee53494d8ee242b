//! Events as they happen.

use api::v1::{Event, Kind, WatchRequest};
use tokio::sync::broadcast;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tonic::Status;

use super::get::Parts;

/// The events a client asked for. One that reads too slowly is told how many it missed.
pub(super) fn watch(
    request: &WatchRequest,
    events: broadcast::Receiver<Event>,
) -> Result<Parts<Event>, Status> {
    let kind = Kind::try_from(request.kind)
        .map_err(|_| Status::invalid_argument("this version doesn't know that kind"))?;
    let wanted = move |event: &Event| match &event.object {
        Some(object) => kind == Kind::Unspecified || object.kind() == kind,
        None => true,
    };
    Ok(Box::pin(BroadcastStream::new(events).filter_map(move |event| match event {
        Ok(event) => wanted(&event).then_some(Ok(event)),
        Err(BroadcastStreamRecvError::Lagged(missed)) => Some(Ok(Event { missed, ..Event::default() })),
    })))
}
