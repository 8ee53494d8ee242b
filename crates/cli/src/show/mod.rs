//! `quiver show`: how things run.
//!
//! Every subject is a [`View`]: what to ask, and how the answer looks. Once, again and again (`--watch`), or two
//! answers some time apart (`--interval`), in which case rates are shown.

mod acl;
mod adjacency;
mod bridge;
mod copying;
mod drops;
mod fib;
mod fields;
mod graph;
mod interface;
mod memif;
mod nat;
mod neighbor;
mod policer;
mod runtime;
mod service;
mod session;
mod tenant;
mod version;
mod view;
mod vip;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;

use crate::context::Context;
use crate::error::Error;
use crate::exit::Exit;
use crate::reference::candidates;
use crate::trace::Traces;
pub(crate) use drops::tone as severity_tone;
pub(crate) use policer::rates_of;
pub(crate) use session::{
    Filters as SessionFilters, Flow as SessionFlow, spi as session_spi, standing as session_standing,
};
pub(crate) use view::{Before, ShowOptions, View, show};

/// What to show.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// Interfaces with state and counters; one by name with all there is to know
    #[command(aliases = ["interfaces", "int", "if"])]
    Interface {
        /// Name; left out: all
        #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::interfaces))]
        name: Option<String>,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Load of workers, and what nodes cost
    ///
    /// CALLS: times the node ran. VECTORS: times it had packets. PACKETS/VECTOR: how full vectors are (at most 256;
    /// what VPP calls vectors/call). CLOCKS/PACKET: clocks of the time stamp counter, - where measuring is off.
    #[command(alias = "run")]
    Runtime {
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Dropped packets by node and reason
    #[command(alias = "errors")]
    Drops {
        /// Say for each reason what it means and what to do
        #[arg(long)]
        explain: bool,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// The forwarding table, one prefix, or what happens to one address
    Fib {
        /// Prefix (10.0.0.0/8: that entry) or address (10.1.2.3: the entry its packets take)
        #[arg(value_name = "PREFIX|ADDRESS")]
        which: Option<String>,
        /// VRF
        #[arg(long, value_name = "NAME", default_value = api::names::DEFAULT_VRF)]
        #[arg(add = ArgValueCandidates::new(candidates::vrfs))]
        vrf: String,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Whom routes lead to, and how many packets and bytes have been sent there
    ///
    /// NEXT HOP: a neighbour; direct: whoever is at the interface's other end. REWRITE: what is put in front of packets; unresolved while the neighbour's
    /// address isn't known. BYTES: with what is put in front.
    #[command(aliases = ["adjacencies", "adj"])]
    Adjacency {
        /// Interface; left out: all
        #[arg(value_name = "INTERFACE", add = ArgValueCandidates::new(candidates::interfaces))]
        interface: Option<String>,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// ARP and IPv6 neighbour tables
    #[command(aliases = ["neighbors", "neigh", "arp"])]
    Neighbor {
        /// Interface; left out: all
        #[arg(value_name = "INTERFACE", add = ArgValueCandidates::new(candidates::interfaces))]
        interface: Option<String>,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Bridges; one by name with its address table
    #[command(aliases = ["bridges", "br"])]
    Bridge {
        /// Name; left out: all
        #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::bridges))]
        name: Option<String>,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Sessions: who speaks with whom, in both directions
    ///
    /// PACKETS and BYTES are those from the initiator, ANSWERS and their BYTES those to it. STATE: embryonic until there is
    /// an answer (TCP: until the connection is open), established, closing once one side has ended, time_wait once it is over.
    #[command(alias = "sessions")]
    Session {
        #[command(flatten)]
        filters: SessionFilters,
        /// Sessions at most; 0: all
        #[arg(long, value_name = "COUNT", default_value_t = 1000)]
        limit: u32,
        /// Those with most bytes alone, of all that there are, or with most of what --by says: so many
        #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "10", conflicts_with = "limit", value_parser = clap::value_parser!(u32).range(1..))]
        top: Option<u32>,
        /// What --top goes by
        #[arg(long, value_name = "WHAT", requires = "top", value_enum, default_value_t)]
        by: session::Most,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Services in the order in which packets of sessions pass them, and whose pass which
    #[command(alias = "services")]
    Service {
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Tenants, and how many sessions they have
    #[command(alias = "tenants")]
    Tenant {
        /// Name; left out: all
        #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::tenants))]
        name: Option<String>,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// NAT pools, and what is used of them
    Nat {
        /// Pool; left out: all
        #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::nat_pools))]
        name: Option<String>,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Policers, whom they meter, and how many packets had which colour
    ///
    /// GREEN: packets that conformed; YELLOW: that exceeded the committed rate and burst; RED: that violated all that was agreed. What becomes of each, the
    /// policer says. BYTES: from the IP header on. PASSED, TOO MUCH: green and red packets per second, where two answers are compared.
    #[command(alias = "policers")]
    Policer {
        /// Policer; left out: all
        #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::policers))]
        name: Option<String>,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// VIPs, their backends, and what these have to do
    ///
    /// PACKETS: to backends; ANSWERS: from them. STATE: active, draining (takes no new sessions), down (its sessions have ended), leaving (was taken away,
    /// and still has sessions). REFUSED: packets for whose session there was no backend.
    #[command(alias = "vips")]
    Vip {
        /// VIP; left out: all
        #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::vips))]
        name: Option<String>,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Lists of rules, and how many sessions have met each; or which rule a session would meet
    ///
    /// HITS: sessions that met the rule, and answers that were asked about. One that is asked about again since rules have changed counts again.
    #[command(alias = "acls")]
    Acl {
        /// List; left out: all, without their rules
        #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::acls))]
        name: Option<String>,
        /// Leave rules out that no session has met
        #[arg(long, requires = "name")]
        hits: bool,
        /// What would become of a session: who begins it, who is asked, and protocol/port (tcp/80, udp/53, icmp, icmp/8)
        #[arg(long, num_args = 3, value_names = ["SOURCE", "DESTINATION", "PROTOCOL/PORT"], conflicts_with = "name")]
        r#match: Option<Vec<String>>,
        /// Port that the session would come from
        #[arg(long, value_name = "PORT", requires = "match", default_value_t = 1024)]
        source_port: u16,
        /// Tenant of the session; left out: the only one that has the service acl
        #[arg(long, value_name = "NAME", requires = "match", add = ArgValueCandidates::new(candidates::tenants))]
        tenant: Option<String>,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// memif connections, their peers and rings
    Memif {
        /// Interface; left out: all
        #[arg(value_name = "INTERFACE", add = ArgValueCandidates::new(candidates::interfaces))]
        interface: Option<String>,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Who copies packets' bodies: the engine, its queues, and what went wrong there
    ///
    /// TRANSFERS: pieces of bodies handed to the queue. SUBMITTED: descriptors it took, most of them batches. COMPLETED: transfers it
    /// did; FALLBACKS: those that the CPU did in its place or finished, because of FAULTS (pages that weren't there), ERRORS, a queue that
    /// stayed FULL after RETRIES, or because the queue was given up: it is tried again after a while.
    #[command(alias = "dma")]
    Copy {
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Nodes, their successors, and feature arcs
    Graph {
        /// Write it in the language of Graphviz: quiver show graph --dot | dot -Tsvg
        #[arg(long, conflicts_with_all = ["output", "watch", "interval"])]
        dot: bool,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Versions of quiver and quiverd, and how quiverd runs
    Version {
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Traces collected so far; the same as quiver trace show
    Trace {
        #[command(flatten)]
        traces: Traces,
        #[command(flatten)]
        options: ShowOptions,
    },
}

/// Shows.
pub(crate) async fn run(context: &Context, args: &ShowArgs) -> Result<Exit, Error> {
    match &args.subject {
        Subject::Interface { name, options } => {
            show(context, options, &interface::Interfaces { name: name.clone() }).await
        }
        Subject::Runtime { options } => show(context, options, &runtime::Runtime).await,
        Subject::Drops { explain, options } => {
            show(context, options, &drops::Drops { explain: *explain }).await
        }
        Subject::Fib { which, vrf, options } => {
            show(context, options, &fib::Fib::new(vrf, which.as_deref())?).await
        }
        Subject::Adjacency { interface, options } => {
            show(context, options, &adjacency::Adjacencies { interface: interface.clone() }).await
        }
        Subject::Neighbor { interface, options } => {
            show(context, options, &neighbor::Neighbors { interface: interface.clone() }).await
        }
        Subject::Bridge { name, options } => {
            show(context, options, &bridge::Bridges { name: name.clone() }).await
        }
        Subject::Session { filters, limit, top, by, options } => {
            let top = top.map(|count| (count, *by));
            show(context, options, &session::Sessions { filters: filters.clone(), limit: *limit, top }).await
        }
        Subject::Service { options } => show(context, options, &service::Services).await,
        Subject::Tenant { name, options } => {
            show(context, options, &tenant::Tenants { name: name.clone() }).await
        }
        Subject::Vip { name, options } => show(context, options, &vip::Vips { name: name.clone() }).await,
        Subject::Acl { r#match: Some(session), source_port, tenant, options, .. } => {
            show(context, options, &acl::Match::new(session, *source_port, tenant.as_deref())?).await
        }
        Subject::Acl { name, hits, options, .. } => {
            show(context, options, &acl::Acls { name: name.clone(), only_hits: *hits }).await
        }
        Subject::Nat { name, options } => show(context, options, &nat::Pools { name: name.clone() }).await,
        Subject::Policer { name, options } => {
            show(context, options, &policer::Policers { name: name.clone() }).await
        }
        Subject::Memif { interface, options } => {
            show(context, options, &memif::Memifs { interface: interface.clone() }).await
        }
        Subject::Copy { options } => show(context, options, &copying::Copying).await,
        Subject::Graph { dot, options } => show(context, options, &graph::Graph { dot: *dot }).await,
        Subject::Version { options } => show(context, options, &version::Version).await,
        Subject::Trace { traces, options } => show(context, options, traces).await,
    }
}
