"""Python for tests: the environment of `tools/setup --python`, or Debian's.

Bazel's own py_test starts with `env python`, which Debian 12 does not have.
"""

# A script and no link: Python finds its environment by the path it is called
# by.
_RUN = """#!/bin/sh
exec {path} "$@"
"""

_MISSING = """#!/bin/sh
echo "no {path}: run tools/setup --python" >&2
exit 1
"""

def _python_environment_impl(rctx):
    root = rctx.path(Label("//:WORKSPACE")).dirname
    for tool in rctx.attr.tools:
        path = rctx.path("%s/.venv-python/bin/%s" % (root, tool))
        script = _RUN if path.exists else _MISSING
        rctx.file(tool, script.format(path = path))
    rctx.file("debian_python3", _RUN.format(path = "/usr/bin/python3"))
    rctx.file("BUILD", """
package(default_visibility = ["//visibility:public"])

exports_files(%s)
""" % repr(rctx.attr.tools + ["debian_python3"]))

python_environment = repository_rule(
    implementation = _python_environment_impl,
    local = True,
    attrs = {"tools": attr.string_list()},
)

def python_test(name, srcs, data = [], python = "@python//:python3", **kwargs):
    """A unittest: srcs has NAME.py and the modules of this package it imports.

    It runs in the runfiles, modules are named from the root of the tree.

    Args:
      name: of the test and its main module.
      srcs: .py files.
      data: as for sh_test.
      python: "@python//:debian_python3" for what needs no package.
      **kwargs: as for sh_test.
    """
    module = "%s/%s" % (native.package_name(), name)
    native.sh_test(
        name = name,
        srcs = [python],
        args = ["-B", "-m", module.replace("/", ".")],
        data = srcs + data,
        **kwargs
    )
