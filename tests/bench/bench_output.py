"""Runs a benchmark program in its smallest sizes."""

import json
import subprocess


def run_smoke(program):
    """Returns what `program` printed: one line, a JSON object."""
    run = subprocess.run([program, "--smoke"], stdout=subprocess.PIPE,
                         text=True, check=True)
    lines = run.stdout.splitlines()
    assert len(lines) == 1, run.stdout
    return json.loads(lines[0])
