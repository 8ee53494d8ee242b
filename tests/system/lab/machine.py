"""What a test needs of the machine."""

import os

import pytest

#: A flood at full rate, the worker, the output threads and the canary need a core each. On two cores such a test measures the
#: scheduler.
needs_cores = pytest.mark.skipif((os.cpu_count() or 1) < 4, reason="a flood at full rate beside a canary needs four cores")
