//! Pages of the metrics and health listeners.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Instant;

use tokio::sync::Mutex;

use super::Collector;
use crate::control::Handle;
use crate::http::{Page, Pages};

/// `/metrics` and `/healthz`.
#[derive(Debug)]
pub struct MetricsPages {
    collector: Arc<Collector>,
    control: Handle,
    last: Arc<Mutex<Scrape>>,
}

/// When the last collection began, and its text as long as it is being sent.
#[derive(Debug, Default)]
struct Scrape(Option<(Instant, Weak<str>)>);

/// `/healthz` alone.
#[derive(Debug)]
pub struct HealthPages(pub Arc<Collector>);

impl MetricsPages {
    /// Pages of a collector.
    #[must_use]
    pub fn new(collector: Arc<Collector>, control: Handle) -> Self {
        Self { collector, control, last: Arc::default() }
    }

    /// Collects metrics. One collection runs at a time, and serves all clients that asked before it began.
    async fn metrics(&self) -> io::Result<Arc<str>> {
        let asked = Instant::now();
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if let Some((began, text)) = &last.0
            && *began >= asked
            && let Some(text) = text.upgrade()
        {
            return Ok(text);
        }
        let began = Instant::now();
        let (view, collector) = (self.control.view().await.ok(), Arc::clone(&self.collector));
        // The lock stays taken until the collection has ended, also if the client goes away.
        let collected = tokio::task::spawn_blocking(move || {
            let text: Arc<str> = collector.collect(view.as_ref()).into();
            last.0 = Some((began, Arc::downgrade(&text)));
            text
        });
        collected.await.map_err(io::Error::other)
    }
}

impl Pages for MetricsPages {
    const MISSING: &'static str = "metrics are at /metrics, and health at /healthz\n";

    async fn page(self: Arc<Self>, path: String) -> io::Result<Option<Page>> {
        match path.split('?').next() {
            Some("/metrics") => Ok(Some(Page { status: "200 OK", body: self.metrics().await? })),
            _ => health(&self.collector, &path).await,
        }
    }
}

impl Pages for HealthPages {
    const MISSING: &'static str = "health is at /healthz\n";

    async fn page(self: Arc<Self>, path: String) -> io::Result<Option<Page>> {
        health(&self.0, &path).await
    }
}

/// Status and description of what is wrong with the workers.
async fn health(collector: &Arc<Collector>, path: &str) -> io::Result<Option<Page>> {
    if path != "/healthz" {
        return Ok(None);
    }
    let collector = Arc::clone(collector);
    let looked = tokio::task::spawn_blocking(move || (collector.faults(), collector.restart_helps()));
    let (faults, helps) = looked.await.map_err(io::Error::other)?;
    Ok(Some(match faults.join("\n") {
        none if none.is_empty() => Page::new("200 OK", "ok\n"),
        words if helps => Page::new("503 Service Unavailable", &(words + "\n")),
        words => Page::new("200 OK", &format!("a restart would not help: {words}\n")),
    }))
}
