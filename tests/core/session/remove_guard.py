"""Replaces a text that is in a source once: IN OUT TEXT REPLACEMENT."""

import sys


def main(source, out, *texts):
    old, new = (text.replace("\\n", "\n") for text in texts)
    with open(source, encoding="utf-8") as file:
        code = file.read()
    if code.count(old) != 1:
        sys.exit(f"{source} has {code.count(old)} times, not once: {old}")
    with open(out, "w", encoding="utf-8") as file:
        file.write(code.replace(old, new))


main(*sys.argv[1:])
