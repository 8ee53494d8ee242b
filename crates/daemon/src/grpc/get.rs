//! Sending many things in parts.

use std::pin::Pin;

use api::v1::{GetRequest, GetResponse, Kind, Object, ObjectRef};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, once};
use tonic::Status;

use crate::control::View;
use crate::model::Key;

/// Objects in one message: far below the limit, far above one packet.
const PART: usize = 1000;
/// Parts made ahead of a slow client.
const AHEAD: usize = 4;

/// Answers as they come.
pub(super) type Parts<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The objects a client asked for.
pub(super) fn get(request: &GetRequest, view: View) -> Result<Parts<GetResponse>, Status> {
    let kind = match Kind::try_from(request.kind) {
        Ok(Kind::Unspecified) => None,
        Ok(kind) => Some(kind),
        Err(_) => return Err(Status::invalid_argument("this version doesn't know that kind")),
    };
    let generation = view.generation();
    if !request.name.is_empty() {
        let Some(kind) = kind else { return Err(Status::invalid_argument("a name needs a kind")) };
        let key = Key::parse(&ObjectRef::new(kind, request.name.as_str()))?;
        let object = view.get(&key).ok_or_else(|| Status::not_found(format!("there is no {key}")))?;
        return Ok(Box::pin(once(Ok(GetResponse { generation, objects: vec![object] }))));
    }
    Ok(in_parts(
        move |each| {
            view.each(kind, each);
            Ok(())
        },
        move |objects: Vec<Object>| GetResponse { generation, objects },
    ))
}

/// Runs `produce` on a thread that may block, and sends what it gives to its callback in parts. The callback returns
/// false when nobody listens any more. An error ends the stream; a stream without things still has one (empty) part.
pub(super) fn in_parts<T, M>(
    produce: impl FnOnce(&mut dyn FnMut(T) -> bool) -> Result<(), Status> + Send + 'static,
    part: impl Fn(Vec<T>) -> M + Send + 'static,
) -> Parts<M>
where
    T: Send + 'static,
    M: Send + 'static,
{
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut things = Vec::with_capacity(PART);
        let result = produce(&mut |thing| {
            things.push(thing);
            things.len() < PART || {
                let full = std::mem::replace(&mut things, Vec::with_capacity(PART));
                sender.blocking_send(Ok(part(full))).is_ok()
            }
        });
        // A client that went away doesn't need the rest.
        let _ = sender.blocking_send(result.map(|()| part(things)));
    });
    Box::pin(ReceiverStream::new(receiver))
}
