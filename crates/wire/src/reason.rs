//! Why a packet is refused: enums whose doc lines are their help texts.

/// Declares an enum of reasons. Each variant has a doc text (kept at run time: it is the help of command line
/// and metrics) and a short name in kebab-case (counter, label).
macro_rules! reasons {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[doc = $doc:literal])+ $variant:ident = $text:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name {
            $( $(#[doc = $doc])+ $variant, )+
        }

        impl $name {
            /// All reasons, in the order of their discriminants (`reason as usize` is an index into this).
            pub const ALL: &[Self] = &[$( Self::$variant, )+];

            /// Short name in kebab-case, unique within this enum: counter and metric label.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $text, )+ }
            }

            /// One sentence for people.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $( Self::$variant => concat!($($doc),+).trim_ascii(), )+ }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.doc())
            }
        }

        impl core::error::Error for $name {}
    };
}

pub(crate) use reasons;
