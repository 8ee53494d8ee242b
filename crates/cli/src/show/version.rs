//! `show version`.

use api::v1::{VersionRequest, VersionResponse};

use super::fields::Fields;
use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::Paint;
use crate::render::number::span;

/// Versions of both sides.
#[derive(Debug)]
pub(super) struct Version;

impl View for Version {
    type Answer = VersionResponse;

    async fn fetch(&self, client: &mut Client) -> Result<VersionResponse, Error> {
        client.version(VersionRequest {}).await.doing("show version")
    }

    fn table(
        &self,
        answer: &VersionResponse,
        _before: Option<Before<'_, VersionResponse>>,
        _paint: Paint,
    ) -> String {
        let ours = env!("CARGO_PKG_VERSION");
        let mut fields = Fields::default();
        fields.add("commit", &answer.commit);
        fields.add("build", format!("{}, {}, {}", answer.profile, answer.rustc, answer.target));
        fields.add("simd", &answer.simd_tier);
        fields.add("memory", &answer.memory);
        fields.add("workers", answer.workers.to_string());
        fields.add("process", format!("{}, up {}", answer.pid, span(answer.uptime_seconds)));
        fields.add("generation", answer.generation.to_string());
        let remark = if answer.version == ours { "" } else { "  (they differ: restart the older one)" };
        format!("quiver {ours}\nquiverd {}{remark}\n{}", answer.version, fields.render())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides() {
        let answer = VersionResponse {
            version: "0.0.1".into(),
            commit: String::new(),
            profile: "release".into(),
            rustc: "1.95.0".into(),
            target: "x86_64-unknown-linux-gnu".into(),
            simd_tier: "avx512".into(),
            pid: 42,
            uptime_seconds: 7530.0,
            workers: 2,
            memory: "huge pages of 2 MiB".into(),
            generation: 7,
        };
        assert_eq!(
            Version.table(&answer, None, Paint::new(false)),
            format!(
                "quiver {}\n\
                 quiverd 0.0.1  (they differ: restart the older one)\n\
                 \x20 build       release, 1.95.0, x86_64-unknown-linux-gnu\n\
                 \x20 simd        avx512\n\
                 \x20 memory      huge pages of 2 MiB\n\
                 \x20 workers     2\n\
                 \x20 process     42, up 2h05m\n\
                 \x20 generation  7\n",
                env!("CARGO_PKG_VERSION")
            )
        );
    }
}
