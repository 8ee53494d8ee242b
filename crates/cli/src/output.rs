//! In which form an answer is written.

use api::escape::Texts;
use api::text;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::error::Error;

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Columns, for people
    Table,
    /// For programs
    Json,
    /// For people and programs
    Toml,
}

/// The option that chooses it.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t = Form::Table)]
    pub(crate) output: Form,
}

impl Form {
    /// Writes a message. Tables are different for every message, so `table` makes them, of a message whose texts are
    /// escaped.
    ///
    /// # Errors
    /// [`Error::Text`] for numbers that TOML doesn't have.
    pub(crate) fn write<T: Serialize + Texts>(
        self,
        message: &mut T,
        table: impl FnOnce(&T) -> String,
    ) -> Result<String, Error> {
        Ok(match self {
            Self::Table => {
                message.escape();
                table(message)
            }
            Self::Json => text::write(message, text::Format::Json)?,
            Self::Toml => text::write(message, text::Format::Toml)?,
        })
    }
}
