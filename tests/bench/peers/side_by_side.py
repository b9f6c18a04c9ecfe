#!/usr/bin/env python3
"""Runs several benchmark commands round-robin and prints their figures as ratios, one JSON line.

  side_by_side.py --rounds 5 --base flight \\
      'flight:gbps.median:python3 flight.py --reps 1 --kib 4096' \\
      'tfdata:gbps.median:python3 tfdata_service.py --reps 1'

Each item is NAME:PATH:COMMAND.  The command must print one JSON line; PATH picks the figure (names
and list indices, joined by dots).  A ratio is taken inside each round, then the median over rounds,
so that slow spells of a shared machine hit all sides.  `value` lists the figures themselves.
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys

from common import stats


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--base", required=True)
    ap.add_argument("--timeout", type=int, default=300)
    ap.add_argument("items", nargs="+")
    a = ap.parse_args()
    items = [i.split(":", 2) for i in a.items]
    values = {n: [] for n, _, _ in items}
    for _ in range(a.rounds):
        row = {}
        for name, path, cmd in items:
            p = subprocess.run(shlex.split(cmd), capture_output=True, text=True, timeout=a.timeout)
            lines = [l for l in p.stdout.splitlines() if l.startswith("{")]
            if p.returncode or not lines:
                sys.exit(f"{name} failed ({p.returncode}): {p.stderr[-600:]}")
            v = json.loads(lines[-1])
            for key in path.split("."):
                v = v[int(key)] if isinstance(v, list) else v[key]
            row[name] = float(v)
        for n, v in row.items():
            values[n].append(v)
    base = values[a.base]
    print(json.dumps({"bench": "side_by_side", "base": a.base, "rounds": a.rounds,
                      "value": {n: stats(v) for n, v in values.items()},
                      "ratio_to_base": {n: stats([x / b for x, b in zip(v, base)]) for n, v in values.items()},
                      "ratio_of_best": {n: round(max(v) / max(base), 3) for n, v in values.items()}},
                     separators=(",", ":")))


if __name__ == "__main__":
    main()
