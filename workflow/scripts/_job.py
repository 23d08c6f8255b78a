"""What every script begins with: the library on the path, and the log around the work."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from backfire.jobs import job

__all__ = ["job"]
