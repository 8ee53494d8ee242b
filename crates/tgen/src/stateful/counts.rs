//! What is counted.

use serde::Serialize;

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Answered by a reset instead of a SYN.
    Refused,
    /// Reset by the other end later on.
    Reset,
    /// No answer to any SYN.
    ConnectTimeout,
    /// No answer to what was sent later on, or none in time.
    Timeout,
    /// Closed by the other end before all was received.
    ClosedEarly,
}

/// Failed connections by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// See [`Cause::Refused`].
    pub refused: u64,
    /// See [`Cause::Reset`].
    pub reset: u64,
    /// See [`Cause::ConnectTimeout`].
    pub connect_timeout: u64,
    /// See [`Cause::Timeout`].
    pub timeout: u64,
    /// See [`Cause::ClosedEarly`].
    pub closed_early: u64,
}

impl Failed {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.refused + self.reset + self.connect_timeout + self.timeout + self.closed_early
    }
}

/// Counters of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Connections begun: SYNs sent by the client side or accepted by the server side, without repetitions.
    pub attempted: u64,
    /// Handshakes completed; for UDP, flows that had a first answer.
    pub established: u64,
    /// Connections that ended as intended.
    pub closed: u64,
    /// Connections that didn't.
    pub failed: Failed,
    /// Messages received whole: responses on the client side, requests on the server side.
    pub messages: u64,
    /// Bytes of payload received in order.
    pub bytes: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Segments that came out of order.
    pub out_of_order: u64,
    /// Packets for no connection, or for an earlier one.
    pub stray: u64,
    /// Connections not begun, or not accepted, because every place was taken.
    pub no_place: u64,
}

impl Counts {
    /// Connections begun and not ended.
    #[must_use]
    pub const fn active(&self) -> u64 {
        self.attempted.saturating_sub(self.closed + self.failed.total())
    }

    /// Counts a failure.
    pub fn fail(&mut self, cause: Cause) {
        let failed = &mut self.failed;
        *match cause {
            Cause::Refused => &mut failed.refused,
            Cause::Reset => &mut failed.reset,
            Cause::ConnectTimeout => &mut failed.connect_timeout,
            Cause::Timeout => &mut failed.timeout,
            Cause::ClosedEarly => &mut failed.closed_early,
        } += 1;
    }
}
