//! Colours, where there is a terminal to show them.

use std::ffi::OsString;

use clap::ValueEnum;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal
    Auto,
    /// Also in pipes and files
    Always,
    /// Never
    Never,
}

impl ColorChoice {
    /// Whether to use colours. `no_color` is the variable of that name: any value but an empty one means no
    /// (no-color.org).
    pub(crate) fn decide(self, terminal: bool, no_color: Option<OsString>) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => terminal && no_color.is_none_or(|value| value.is_empty()),
        }
    }
}

/// What a text means; colours follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Worth a look.
    Warn,
    /// Broken.
    Bad,
    /// A heading.
    Strong,
    /// Less important.
    Faint,
}

/// Puts colours on texts, or leaves them alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    color: bool,
}

impl Paint {
    /// With or without colours.
    pub(crate) fn new(color: bool) -> Self {
        Self { color }
    }

    /// Whether there are colours.
    pub(crate) fn colored(self) -> bool {
        self.color
    }

    /// The text in its colour (ECMA-48 SGR).
    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
            Tone::Strong => "1",
            Tone::Faint => "2",
        };
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_colour_without_a_terminal_or_against_the_wish() {
        assert!(ColorChoice::Auto.decide(true, None));
        assert!(ColorChoice::Auto.decide(true, Some("".into())));
        assert!(!ColorChoice::Auto.decide(true, Some("1".into())));
        assert!(!ColorChoice::Auto.decide(false, None));
        assert!(ColorChoice::Always.decide(false, Some("1".into())));
        assert!(!ColorChoice::Never.decide(true, None));
        assert_eq!(Paint::new(false).tone(Tone::Bad, "x"), "x");
        assert_eq!(Paint::new(true).tone(Tone::Bad, "x"), "\x1b[31mx\x1b[0m");
    }
}
