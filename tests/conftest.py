"""Makes `harness` importable for all test folders, and leaves tests for several ranks to `tests/run.py`."""

from __future__ import annotations

import os

collect_ignore = [] if "TEST_LAUNCH_CHANNEL" in os.environ else ["parallel"]
