//! Tables, numbers and colours.

pub(crate) mod number;
mod paint;
mod table;

pub(crate) use paint::{ColorChoice, Paint, Tone};
pub(crate) use table::{Cell, Column, Table};
