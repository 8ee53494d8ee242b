"""``python -m quiver_bench``: the command line."""

import sys

try:
    from quiver_bench.commands.main import main
except KeyboardInterrupt:  # imports take their time
    print("quiver-bench: stopped", file=sys.stderr)
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
