"""The command line of the studies."""

import os

# Processes share the cores; threads within each would only wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from .runner import main

raise SystemExit(main())
