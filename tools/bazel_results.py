#!/usr/bin/env python3
"""Prints what came of each target of a `bazel test`.

Usage: bazel_results.py BUILD_EVENT_JSON_FILE

One line each, sorted: "PASSED //tests/core/plan:layout_test" or "FAILED ...".
A test fails if it, or what it needs, does not build; so does any other target
that does not build. Tests that were left out are not named.
"""

import json
import sys

_PASSED = ("PASSED", "FLAKY")


def outcome(event):
    """Returns (label, passed) if the event settles a test or a failure."""
    ident = event["id"]
    if "testSummary" in ident:
        status = event.get("testSummary", {}).get("overallStatus")
        return ident["testSummary"]["label"], status in _PASSED
    if "targetCompleted" in ident:
        label = ident["targetCompleted"]["label"]
        if "aborted" in event:
            skipped = event["aborted"]["reason"] == "SKIPPED"
            return None if skipped else (label, False)
        if not event["completed"].get("success"):
            return label, False
    return None


def results(events):
    """Returns {label: passed} of all events of one invocation."""
    passed = {}
    exit_name = "NO_END"
    for event in events:
        settled = outcome(event)
        if settled:
            passed[settled[0]] = passed.get(settled[0], True) and settled[1]
        if "buildFinished" in event["id"]:
            exit_name = event["finished"]["exitCode"]["name"]
    ended_well = exit_name in ("SUCCESS", "NO_TESTS_FOUND")
    explained = exit_name != "NO_END" and not all(passed.values())
    if not ended_well and not explained:
        passed[f"bazel ({exit_name})"] = False
    return passed


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    with open(sys.argv[1]) as file:
        for label, ok in sorted(results(map(json.loads, file)).items()):
            print("PASSED" if ok else "FAILED", label)


if __name__ == "__main__":
    main()
