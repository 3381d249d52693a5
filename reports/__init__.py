"""The report. What its libraries keep stays inside the folder."""

import os

from harness.catalog.sources import CACHE

os.environ.setdefault("MPLCONFIGDIR", str(CACHE / "matplotlib"))  # before anything here imports matplotlib
