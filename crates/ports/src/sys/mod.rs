//! System calls that the libraries lack, each behind a safe function.

#![allow(unsafe_code)]

pub(crate) mod packet;
pub(crate) mod tun;
