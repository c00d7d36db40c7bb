"""``python -m tilec``."""

import sys

from tilec.cli import main

sys.exit(main())
