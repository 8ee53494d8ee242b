//! Forwarding without workers, and with one that is stepped by hand.
