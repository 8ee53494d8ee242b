"""``python -m quiver_bench``: the command line."""

import sys

from quiver_bench.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
