"""``python -m dmlrank.cli``: the same as the command ``dmlrank``."""

import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main())
