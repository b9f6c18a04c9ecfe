"""The Python environment that `tools/setup --python` makes, for tests."""

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
    rctx.file("BUILD", """
package(default_visibility = ["//visibility:public"])

exports_files(%s)
""" % repr(rctx.attr.tools))

python_environment = repository_rule(
    implementation = _python_environment_impl,
    local = True,
    attrs = {"tools": attr.string_list()},
)
