#!/usr/bin/env python3
"""Pins a requirements file by version and hash, for CPython 3.11 on x86-64.

Usage: pin_requirements.py [--no-deps] IN OUT

Run it with the Python that the file is for, after a change of IN:

  python3 tools/pin_requirements.py --no-deps tools/requirements.in \\
      tools/requirements.txt
  python3 tools/pin_requirements.py tools/requirements-python.in \\
      tools/requirements-python.txt
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile


def resolve(source, no_deps):
    """Returns {"name==version": "sha256:..."} of what pip would install."""
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet"]
        command += ["--dry-run", "--ignore-installed", "--report", report]
        command += ["--no-deps"] if no_deps else []
        subprocess.run(command + ["-r", source], check=True)
        install = json.loads(report.read_text())["install"]
    pins = {}
    for entry in install:
        meta = entry["metadata"]
        algorithm, digest = entry["download_info"]["archive_info"]["hash"].split(
            "=")
        pins[f"{meta['name']}=={meta['version']}"] = f"{algorithm}:{digest}"
    return pins


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-deps", action="store_true")
    parser.add_argument("source", metavar="IN")
    parser.add_argument("out", metavar="OUT")
    args = parser.parse_args()
    pins = resolve(args.source, args.no_deps)
    with open(args.out, "w") as out:
        out.write(f"# Made from {pathlib.Path(args.source).name} by "
                  "pin_requirements.py. Do not edit.\n")
        for pin in sorted(pins, key=str.lower):
            out.write(f"{pin} \\\n    --hash={pins[pin]}\n")


if __name__ == "__main__":
    main()
