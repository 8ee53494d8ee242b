//! Declarations that nodes make: one line each, whose doc comment is the help text everywhere.

/// Declares a node's next edges: an enum whose variants are the edge numbers, with the names of the nodes they lead
/// to. The first edge of every node that can drop is `Drop => "drop"`.
///
/// ```
/// quiver_graph::edges! {
///     /// Where a packet goes from here.
///     pub enum Next { Drop => "drop", Lookup => "ip4-lookup" }
/// }
/// assert_eq!(Next::Lookup.edge(), 1);
/// assert_eq!(Next::NAMES, ["drop", "ip4-lookup"]);
/// ```
#[macro_export]
macro_rules! edges {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$vmeta:meta])* $variant:ident => $node:expr),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        $vis enum $name {
            $($(#[$vmeta])* #[doc = concat!("To `", $node, "`.")] $variant),+
        }
        #[allow(dead_code)]
        impl $name {
            /// Names of the nodes the edges lead to, in edge order.
            pub const NAMES: &'static [&'static str] = &[$($node),+];
            /// The edge's number.
            #[inline(always)]
            pub const fn edge(self) -> u8 { self as u8 }
        }
    };
}

/// Declares why a node drops packets. The doc comment is the help text of CLI, metrics and documentation.
///
/// ```
/// quiver_graph::drops! {
///     /// Why this node drops.
///     pub enum Drop {
///         /// The header checksum is wrong.
///         BadChecksum => "bad-checksum", Invalid,
///     }
/// }
/// assert_eq!(Drop::SPECS[0].help, "The header checksum is wrong.");
/// ```
#[macro_export]
macro_rules! drops {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[doc = $help:expr])+ $variant:ident => $text:expr, $severity:ident),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        $vis enum $name { $($(#[doc = $help])+ $variant),+ }
        #[allow(dead_code)]
        impl $name {
            /// Name, help and severity of each reason.
            pub const SPECS: &'static [$crate::DropSpec] = &[$($crate::DropSpec {
                name: $text,
                help: $crate::node::trim(concat!($($help),+)),
                severity: $crate::Severity::$severity,
            }),+];
        }
        impl From<$name> for u8 {
            #[inline(always)]
            fn from(reason: $name) -> u8 { reason as u8 }
        }
    };
}

/// Declares what a node counts, beyond packets and drops. The doc comment is the help text.
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[doc = $help:expr])+ $variant:ident => $text:expr),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        $vis enum $name { $($(#[doc = $help])+ $variant),+ }
        #[allow(dead_code)]
        impl $name {
            /// Name and help of each counter.
            pub const SPECS: &'static [$crate::CounterSpec] = &[$($crate::CounterSpec {
                name: $text,
                help: $crate::node::trim(concat!($($help),+)),
            }),+];
        }
        impl From<$name> for u8 {
            #[inline(always)]
            fn from(counter: $name) -> u8 { counter as u8 }
        }
    };
}
