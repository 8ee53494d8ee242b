//! Exit status: the part of the output that scripts read.

use std::fmt::Write;
use std::process::ExitCode;

/// How the program ended. The numbers are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// See [`Exit::meaning`].
    Done = 0,
    /// See [`Exit::meaning`].
    Differs = 1,
    /// See [`Exit::meaning`].
    Usage = 2,
    /// See [`Exit::meaning`].
    Unreachable = 3,
    /// See [`Exit::meaning`].
    NotFound = 4,
    /// See [`Exit::meaning`].
    Refused = 5,
    /// See [`Exit::meaning`].
    Conflict = 6,
    /// See [`Exit::meaning`].
    Input = 7,
    /// See [`Exit::meaning`].
    Failed = 8,
}

impl Exit {
    /// All of them, by number.
    pub const ALL: [Self; 9] = [
        Self::Done,
        Self::Differs,
        Self::Usage,
        Self::Unreachable,
        Self::NotFound,
        Self::Refused,
        Self::Conflict,
        Self::Input,
        Self::Failed,
    ];

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// What it means, one line; help and reference are made of it.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done; diff: no difference; doctor: no check failed",
            Self::Differs => "diff: there are differences; doctor: a check failed",
            Self::Usage => "the command line is wrong",
            Self::Unreachable => "quiverd can't be reached, or doesn't answer",
            Self::NotFound => "there is no object of that name",
            Self::Refused => "quiverd refused an object, so nothing of the batch is in force",
            Self::Conflict => "the generation isn't the expected one: somebody else changed the state",
            Self::Input => "a file can't be read or isn't well-formed",
            Self::Failed => "quiverd could not do it, or output can't be written",
        }
    }

    /// The table of all of them, as it stands at the end of the help.
    pub fn help() -> String {
        let mut text = String::from("Exit status:");
        for exit in Self::ALL {
            // Writing to a string can't fail.
            let _ = write!(text, "\n  {}  {}", exit.code(), exit.meaning());
        }
        text
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stable_and_dense() {
        let codes = Exit::ALL.map(Exit::code);
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(Exit::help().contains("\n  3  quiverd can't be reached, or doesn't answer\n"));
    }
}
