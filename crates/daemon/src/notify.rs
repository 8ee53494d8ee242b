//! Talking to the service manager; without one nothing happens.

use std::time::Duration;

use sd_notify::NotifyState;

use crate::control::Handle;

/// Says that clients may connect.
pub fn ready(status: &str) {
    // A line break would begin another assignment.
    send(&[NotifyState::Ready, NotifyState::Status(&api::escape::text(status))]);
}

/// Says that we are stopping.
pub fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// Says again and again that the control thread is alive, because it answered; for ever, or returns at once where
/// nobody wants to know.
pub async fn watchdog(control: Handle) {
    let Some(patience) = sd_notify::watchdog_enabled() else { return };
    // Half of the time there is, as sd_watchdog_enabled(3) advises.
    let pause = (patience / 2).max(Duration::from_millis(1));
    loop {
        if control.ping().await.is_err() {
            return;
        }
        send(&[NotifyState::Watchdog]);
        tokio::time::sleep(pause).await;
    }
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "can't reach the service manager");
    }
}
