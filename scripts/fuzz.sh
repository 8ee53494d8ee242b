#!/usr/bin/env bash
# Fuzzes the memif library: control channel of both roles, rings against an oracle, and pools of trust groups.
# fuzz.sh [MINUTES [TARGET...]]: 10 minutes each by default, one after another. Coverage-guided by libFuzzer, with the
# stable compiler. With a nightly one, SANITIZER=address checks every access to memory too.
# Findings are written to target/fuzz/findings; keep them in crates/memif/fuzz/corpus, where every test run repeats them.
set -euo pipefail
cd "$(dirname "$0")/../crates/memif/fuzz"
minutes=${1:-10}
shift || true
targets=("${@:-}")
[ -n "${targets[0]}" ] || targets=(server client rings pool)

# What `cargo fuzz` sets, in options of the stable compiler.
coverage=(--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
	-Cllvm-args=-sanitizer-coverage-trace-compares)
cargo=(cargo)
if [ -n "${SANITIZER:-}" ]; then
	coverage+=("-Zsanitizer=$SANITIZER")
	cargo+=(+nightly)
fi
out=$PWD/../../../target/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
mkdir -p "$out/findings"
RUSTFLAGS="${coverage[*]}" "${cargo[@]}" build --locked --release --target "$host" --target-dir "$out"
for target in "${targets[@]}"; do
	mkdir -p "$out/corpus/$target"
	echo "== $target: $minutes minutes"
	"$out/$host/release/$target" -max_total_time="$((minutes * 60))" -max_len=600 -print_final_stats=1 \
		-artifact_prefix="$out/findings/$target-" "$out/corpus/$target" "corpus/$target"
done
