//! All checks together.

use std::fmt::Write;

use api::escape::{self, Texts};
use serde::Serialize;

use super::{Check, Verdict};
use crate::render::{Paint, Tone};

/// All checks and the worst verdict.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    verdict: Verdict,
    checks: Vec<Check>,
}

impl Report {
    /// Of these checks.
    pub(super) fn new(checks: Vec<Check>) -> Self {
        let verdict = checks.iter().map(|check| check.verdict).max().unwrap_or(Verdict::Ok);
        Self { verdict, checks }
    }

    /// The worst one.
    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// As text.
    pub(super) fn table(&self, paint: Paint) -> String {
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for check in &self.checks {
            let (word, tone) = match check.verdict {
                Verdict::Ok => ("ok  ", Tone::Good),
                Verdict::Warn => ("warn", Tone::Warn),
                Verdict::Fail => ("fail", Tone::Bad),
            };
            let _ = writeln!(text, "{}  {:<width$}  {}", paint.tone(tone, word), check.name, check.found);
            let indent = " ".repeat(width + 8);
            let _ = writeln!(text, "{indent}{}", paint.tone(Tone::Faint, &check.meaning));
            if !check.remedy.is_empty() {
                let _ = writeln!(text, "{indent}-> {}", check.remedy);
            }
        }
        let count = |verdict| self.checks.iter().filter(|check| check.verdict == verdict).count();
        let (ok, warn, fail) = (count(Verdict::Ok), count(Verdict::Warn), count(Verdict::Fail));
        let conclusion = match self.verdict {
            Verdict::Ok => "quiverd will run well here",
            Verdict::Warn => "quiverd will run here, with the limits said above",
            Verdict::Fail => "quiverd can't do its work here before that is mended",
        };
        let _ = writeln!(text, "\n{ok} ok, {warn} warn, {fail} fail: {conclusion}");
        text
    }
}

impl Texts for Report {
    fn escape(&mut self) {
        for check in &mut self.checks {
            [&mut check.found, &mut check.meaning, &mut check.remedy].into_iter().for_each(escape::in_place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report::new(vec![
            Check::ok("kernel", "6.1.0", "new enough"),
            Check::fail("memfd", "Function not implemented", "no memory can be shared")
                .with_remedy("use another kernel"),
            Check::warn("huge pages", "none", "more TLB misses"),
        ])
    }

    #[test]
    fn text() {
        assert_eq!(
            report().table(Paint::new(false)),
            "ok    kernel      6.1.0\n\
             \x20                 new enough\n\
             fail  memfd       Function not implemented\n\
             \x20                 no memory can be shared\n\
             \x20                 -> use another kernel\n\
             warn  huge pages  none\n\
             \x20                 more TLB misses\n\
             \n\
             1 ok, 1 warn, 1 fail: quiverd can't do its work here before that is mended\n"
        );
    }

    #[test]
    fn json() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["verdict"], "fail");
        assert_eq!(json["checks"][1]["remedy"], "use another kernel");
        assert_eq!(json["checks"][0].get("remedy"), None);
    }
}
