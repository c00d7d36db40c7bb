"""The recorder, which shares what identifies a case with the tests, lies with the GPU suite."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "gpu"))
