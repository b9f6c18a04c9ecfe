"""Runs tools/quickstart on binaries that are built already."""

import os
import subprocess
import sysconfig

DOCUMENTS = os.path.join(sysconfig.get_path("stdlib"), "json")


def quickstart(*options):
    """The finished process; of options given twice the last counts."""
    return subprocess.run(
        ["tools/quickstart", "--docs", DOCUMENTS, "--row_width", "512",
         *options],
        capture_output=True, text=True, timeout=240,
        env={**os.environ, "CPFEED_BIN": "."})
