//! What a connection does with its life.

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opens connections, asks, closes.
    Client,
    /// Accepts connections, answers, closes when the other end has.
    Server,
}

/// How a client closes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Close {
    /// By FIN, which the server answers by its own.
    #[default]
    Fin,
    /// By RST.
    Reset,
}

/// Requests and responses of a connection: each response follows its request, each next request the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Number of requests.
    pub turns: u32,
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of a response.
    pub response: u32,
}

impl Exchange {
    /// Bytes that `role` may have sent when it has received `received` bytes.
    #[inline(always)]
    #[must_use]
    pub fn may_send(&self, role: Role, received: u32) -> u32 {
        if self.turns == 0 {
            return 0;
        }
        let (turns, size) = match role {
            Role::Client => {
                ((received.checked_div(self.response)).map_or(self.turns, |done| done + 1), self.request)
            }
            Role::Server => ((received.checked_div(self.request)).unwrap_or(self.turns), self.response),
        };
        turns.min(self.turns) * size
    }

    /// Bytes that `role` receives in all.
    #[inline(always)]
    #[must_use]
    pub const fn to_receive(&self, role: Role) -> u32 {
        self.turns * self.message(role)
    }

    /// Bytes of a message that `role` receives.
    #[inline(always)]
    #[must_use]
    pub const fn message(&self, role: Role) -> u32 {
        match role {
            Role::Client => self.response,
            Role::Server => self.request,
        }
    }
}

/// Everything that connections of a side have in common. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Which end.
    pub role: Role,
    /// What is exchanged.
    pub exchange: Exchange,
    /// Largest payload of a segment that we send and ask for.
    pub mss: u16,
    /// How the client closes.
    pub close: Close,
    /// How long the client stays connected after the last response.
    pub hold: u32,
    /// Time to the first retransmission; doubled with each further one.
    pub rto: u32,
    /// Retransmissions after which a connection has failed.
    pub retries: u8,
    /// How long to wait for the other end where nothing of ours waits for an acknowledgment.
    pub timeout: u32,
    /// How long a client's address and port aren't used again.
    pub time_wait: u32,
    /// Key of where sequence numbers begin.
    pub seed: u64,
    /// What the timer of initial sequence numbers stood at when the run began, in units of `Now::TIMER_NS`.
    pub epoch: u32,
}
