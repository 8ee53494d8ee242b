//! Whether quiverd answers, and is of our version.

use std::time::Duration;

use api::v1::{VersionRequest, VersionResponse};

use super::Check;
use crate::context::Context;
use crate::error::{Doing, Error};
use crate::render::number::span;

/// Longest time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks.
pub(super) async fn check(context: &Context) -> Check {
    let answer = tokio::time::timeout(PATIENCE, async {
        context.connect().await?.version(VersionRequest {}).await.doing("version")
    });
    judge(answer.await.ok(), env!("CARGO_PKG_VERSION"))
}

/// `None`: no answer in time.
fn judge(answer: Option<Result<VersionResponse, Error>>, ours: &str) -> Check {
    const NAME: &str = "quiverd";
    match answer {
        Some(Ok(theirs)) if theirs.version == ours => Check::ok(
            NAME,
            format!("{}, up {}", theirs.version, span(theirs.uptime_seconds)),
            "quiver and quiverd are of one version",
        ),
        Some(Ok(theirs)) => Check::warn(
            NAME,
            format!("{}, while quiver is {ours}", theirs.version),
            "commands that only one of them knows fail",
        )
        .with_remedy("install one version of both, and restart quiverd (systemctl restart quiverd)"),
        Some(Err(Error::Unreachable { socket, reason, remedy })) => Check::warn(
            NAME,
            format!("no answer at {}: {reason}", socket.display()),
            "nothing moves packets yet, or it listens elsewhere",
        )
        .with_remedy(remedy),
        Some(Err(error)) => Check::fail(NAME, error.to_string(), "it runs, but doesn't answer as it should")
            .with_remedy("look at its log (journalctl -u quiverd)"),
        None => Check::fail(
            NAME,
            format!("no answer in {}", span(PATIENCE.as_secs_f64())),
            "it runs, but hangs or is overloaded",
        )
        .with_remedy("look at its log (journalctl -u quiverd), and restart it (systemctl restart quiverd)"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn versions_and_silence() {
        let version = |version: &str| {
            Some(Ok(VersionResponse { version: version.into(), ..VersionResponse::default() }))
        };
        assert_eq!(judge(version("1.2.3"), "1.2.3").verdict, Verdict::Ok);
        let check = judge(version("1.2.2"), "1.2.3");
        assert_eq!((check.verdict, check.found.as_str()), (Verdict::Warn, "1.2.2, while quiver is 1.2.3"));
        assert_eq!(judge(None, "1.2.3").verdict, Verdict::Fail);
        let unreachable =
            Error::Unreachable { socket: "/x".into(), reason: "gone".into(), remedy: "start it" };
        let check = judge(Some(Err(unreachable)), "1.2.3");
        assert_eq!((check.verdict, check.remedy.as_str()), (Verdict::Warn, "start it"));
    }
}
