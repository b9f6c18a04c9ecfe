"""The rules of include_rules.py, on samples and on this tree."""

import pathlib
import unittest

from tests.lint import include_rules

# Through Bazel's links to the sources.
_ROOT = pathlib.Path(__file__).resolve().parents[2]


class CheckFileTest(unittest.TestCase):

    def assert_problem(self, path, text, expected):
        problems = include_rules.check_file(path, text)
        self.assertEqual(len(problems), 1, (path, text, problems))
        self.assertIn(expected, problems[0])

    def test_refuses_what_breaks_a_rule(self):
        for path, text, expected in (
            ("core/plan/a.cc", "\n#include <grpcpp/grpcpp.h>\n",
             "core/plan/a.cc:2: includes grpcpp/grpcpp.h"),
            ("core/plan/a.cc", '#include "absl/flags/flag.h"\n', "flags"),
            ("core/plan/a.cc", '#include "core/shard/shard.h"\n',
             "core/plan may not use core/shard"),
            ("core/tensor/a.h", "#include <ATen/ATen.h>\n",
             "core/tensor is built without LibTorch"),
            ("core/comm/a.h", '#include "torch/torch.h"\n', "18 s"),
            ("client/worker/a.cc", "#include <torch/torch.h>\n", "18 s"),
            ("core/comm/gloo.cc", "#include <nccl.h>\n", "nccl_*"),
            ("core/session/a.cc", '#include "cpfeed/v1/plan.pb.h"\n',
             "only core/wire"),
            ("core/wire/a.cc", '#include "server/main.h"\n',
             "core may not use server"),
            ("client/a.cc", '#include "server/auth.h"\n',
             "client may not use server"),
            ("server/a.cc", '#include "tests/testing/fake.h"\n',
             "server may not use tests"),
            ("server/a.cc", "#include <c10/util/Exception.h>\n",
             "server is built without LibTorch"),
            ("core/base/a.cc", 'auto* x = std::getenv("X");\n', "environment"),
            ("core/base/a.cc", "std::cout << 1;\n", "prints"),
            ("core/session/a.cc", "t = absl::Now();\n", "wall clock"),
            ("core/new/a.h", "", "no rule for core/new"),
            ("server/a.cc", "\n" * 601, "601 lines"),
        ):
            self.assert_problem(path, text, expected)

    def test_allows_what_keeps_the_rules(self):
        for path, text in (
            ("core/shard/a.cc", '#include "core/plan/shard_plan.h"\n'),
            ("core/shard/a.cc", '#include "core/shard/shard.h"\n'),
            ("core/wire/a.cc", '#include "cpfeed/v1/plan.pb.h"\n'),
            ("core/comm/nccl_communicator.cc", "#include <nccl.h>\n"),
            ("core/attention/a.cc", "#include <ATen/ops/empty.h>\n"),
            ("core/context/a.cc", '#include "core/loss/loss.h"\n'),
            ("core/base/a.cc", "// std::getenv() and std::cout are banned.\n"),
            ("core/base/a.cc", "clock->Now(); runtime(0);\n"),
            ("server/main.cc", '#include "absl/flags/flag.h"\n'),
            ("server/main.cc", "absl::Now();\n"),
            ("tests/server/a.cc", '#include "server/auth.h"\n'),
            ("server/a.cc", "\n" * 600),
        ):
            self.assertEqual(include_rules.check_file(path, text), [], path)


class TreeTest(unittest.TestCase):

    def test_finds_the_sources(self):
        files = [path.as_posix() for path in include_rules.source_files(_ROOT)]
        self.assertIn("core/base/error.h", files)
        self.assertIn("core/base/error.cc", files)

    def test_tree_keeps_the_rules(self):
        problems = include_rules.check_tree(_ROOT)
        self.assertEqual(problems, [], "\n" + "\n".join(problems))


if __name__ == "__main__":
    unittest.main()
