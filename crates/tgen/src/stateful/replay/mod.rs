//! Conversations without state: the packets of whole connections, made beforehand, with new endpoints each time.
//!
//! For devices under test that are faster than state machines can be. Each packet of a conversation is a *step*. Many
//! conversations are under way at once: while a block of them has its first step sent, an earlier block has its second, and
//! so on, far enough apart that a step has left the device's queue when the one that answers it is sent. Nothing waits for
//! anything; what came through is counted per step.
//!
//! * [`conversation`]: the steps, made or from a capture.
//! * [`run`]: sending and counting.
//! * [`options`]: the command line and the result.

pub mod conversation;
pub mod options;
pub mod run;
#[cfg(test)]
mod tests;
