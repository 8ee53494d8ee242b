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
/// Bytes after which a message is full, however few objects it has: one of them stays far below the limit, too.
const BYTES: usize = 512 << 10;
/// Parts made ahead of a slow client: each of many clients has so many in memory.
const AHEAD: usize = 1;

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
    T: prost::Message + 'static,
    M: Send + 'static,
{
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        let (mut things, mut bytes) = (Vec::with_capacity(PART), 0);
        let result = produce(&mut |thing| {
            bytes += thing.encoded_len();
            things.push(thing);
            things.len() < PART && bytes < BYTES || {
                bytes = 0;
                let full = std::mem::replace(&mut things, Vec::with_capacity(PART));
                sender.blocking_send(Ok(part(full))).is_ok()
            }
        });
        // A client that went away doesn't need the rest.
        let _ = sender.blocking_send(result.map(|()| part(things)));
    });
    Box::pin(ReceiverStream::new(receiver))
}

#[cfg(test)]
mod tests {
    use api::v1::{VipBackendState, VipState, VipsResponse};
    use prost::Message as _;
    use tokio_stream::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn messages_are_small_whatever_is_in_them() {
        let backend = VipBackendState { address: "2001:db8::1".into(), ..VipBackendState::default() };
        let vip = |number: usize| VipState {
            name: format!("{number}"),
            backends: vec![backend.clone(); 10_000],
            ..VipState::default()
        };
        let all: Vec<_> = (0..100).map(vip).collect();
        let produce = {
            let all = all.clone();
            move |each: &mut dyn FnMut(VipState) -> bool| {
                let _ = all.into_iter().all(each);
                Ok(())
            }
        };
        let mut parts = in_parts(produce, |vips| VipsResponse { vips });
        let (mut together, mut messages) = (Vec::new(), 0);
        while let Some(part) = parts.next().await {
            let part = part.unwrap();
            assert!(part.encoded_len() < BYTES + all[0].encoded_len());
            together.extend(part.vips);
            messages += 1;
        }
        assert!(together == all && messages > 3, "{messages}");
    }
}
