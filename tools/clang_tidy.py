#!/usr/bin/env python3
"""Runs clang-tidy on the tree's C++ sources, as Bazel compiles them.

Writes compile_commands.json, for editors too. Sources of targets tagged
no_sanitizer (LibTorch) are left out: half a minute each. What passed is
remembered in the user's cache folder by the hash of all it depends on.

With CPFEED_TIDY_SECONDS no file is begun after so many seconds; the product's
sources come before the tests', and what was left out is counted. The next run
goes on where this one stopped.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

_BAZEL = ["--config=clang"]
_TARGETS = r"//... except attr(tags, '[\[ ]no_sanitizer[,\]]', //...)"
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include\s+"([^"]+)"', re.MULTILINE)
_CACHE = pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache",
    "cpfeed/clang_tidy")


def bazel(*args):
    return subprocess.run(["bazel", *args], check=True,
                          stdout=subprocess.PIPE).stdout


def build_generated_headers():
    """Builds what protoc writes, which sources include."""
    labels = bazel("query", "kind(_generate, //...)").decode().split()
    if labels:
        bazel("build", *_BAZEL, *labels)


def plain_arguments(arguments):
    """Returns the compiler's arguments without outputs and module maps."""
    plain = []
    values = iter(arguments)
    for value in values:
        if value in ("-o", "-MF"):
            next(values)
        elif value == "-Xclang":
            if not (following := next(values)).startswith("-fmodule"):
                plain += [value, following]
        elif not value.startswith(("-MD", "-fmodule", "-fcolor")):
            plain.append(value)
    return plain


def compile_commands():
    """Returns {source: arguments} of the C++ files in the tree."""
    query = f"mnemonic('CppCompile', {_TARGETS})"
    graph = json.loads(
        bazel("aquery", *_BAZEL, "--output=jsonproto",
              "--include_artifacts=false", query))
    commands = {}
    for action in graph.get("actions", []):
        arguments = action["arguments"]
        source = arguments[arguments.index("-c") + 1]
        if not source.startswith(("bazel-out/", "external/")):
            commands[source] = plain_arguments(arguments)
    return commands


def write_compile_commands(commands):
    entries = [{
        "directory": os.getcwd(),
        "file": source,
        "arguments": arguments
    } for source, arguments in sorted(commands.items())]
    pathlib.Path("compile_commands.json").write_text(
        json.dumps(entries, indent=1))


@functools.lru_cache(maxsize=None)
def read(path):
    """Returns the file's hash and what it includes by quotes, or None."""
    if not os.path.isfile(path):
        return None
    content = pathlib.Path(path).read_bytes()
    return hashlib.sha256(content).hexdigest(), tuple(
        name.decode() for name in _INCLUDE.findall(content))


def dependencies(source, folders):
    """Returns the hashes of the source and all it includes from the tree."""
    hashes, left = {}, [source]
    while left:
        path = left.pop()
        if path in hashes:
            continue
        hashes[path], included = read(path)
        for name in included:
            found = (os.path.normpath(os.path.join(f, name)) for f in folders)
            left += [p for p in found if read(p)][:1]
    return sorted(hashes.items())


def cache_key(source, arguments, salt):
    folders = ["."] + [
        value for flag, value in zip(arguments, arguments[1:])
        if flag in ("-iquote", "-isystem", "-I")
    ]
    what = json.dumps([salt, arguments, dependencies(source, folders)])
    return hashlib.sha256(what.encode()).hexdigest()


def check(source, key, deadline):
    """Returns clang-tidy's complaints about one file, "" if there are none.

    Returns None where there was no time for it.
    """
    passed = _CACHE / key
    if passed.exists():
        return ""
    if time.monotonic() > deadline:
        return None
    tidy = subprocess.run(["clang-tidy", "--quiet", "-p", ".", source],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    if tidy.returncode == 0:
        passed.touch()
        return ""
    return tidy.stdout or tidy.stderr


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", metavar="SOURCE", nargs="*",
                        help="only these, named from the root of the tree")
    args = parser.parse_args()
    os.chdir(pathlib.Path(__file__).resolve().parents[1])
    _CACHE.mkdir(parents=True, exist_ok=True)

    build_generated_headers()
    commands = compile_commands()
    write_compile_commands(commands)
    salt = [
        subprocess.check_output(["clang-tidy", "--version"], text=True),
        pathlib.Path(".clang-tidy").read_text(),
        pathlib.Path("tests/.clang-tidy").read_text()
    ]
    sources = args.sources or sorted(
        commands, key=lambda s: (s.startswith("tests/"), s))
    keys = [cache_key(source, commands[source], salt) for source in sources]
    seconds = float(os.environ.get("CPFEED_TIDY_SECONDS") or "inf")
    deadline = time.monotonic() + seconds
    failed = left_out = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = pool.map(check, sources, keys, [deadline] * len(sources))
        for source, output in zip(sources, outputs):
            left_out += output is None
            if output:
                failed += 1
                print(f"== {source}\n{output}", flush=True)
    print(f"clang-tidy: {len(sources)} files, {failed} with complaints, "
          f"{left_out} left out for lack of time")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
