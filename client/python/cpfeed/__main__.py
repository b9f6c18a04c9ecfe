"""python -m cpfeed doctor: looks for what keeps a job from running."""

import argparse
import dataclasses
import json
import os
import sys

from cpfeed.doctor import Finding, Question, examine
from cpfeed.errors import UsageError
from cpfeed.mesh import Job
from cpfeed.security import Security
from cpfeed.version import __version__

_EPILOG = """\
With CPFEED_MESH and CPFEED_SERVER set, and neither --server nor --session, the
job of the environment is checked: CPFEED_JOB, CPFEED_REPLICAS, RANK, WORLD_SIZE.

Examples:
  python -m cpfeed doctor --server 127.0.0.1:8470 --session train --cp_size 8
  CPFEED_SERVER=127.0.0.1:8470 CPFEED_MESH=dp=2,cp=4 RANK=5 \\
      python -m cpfeed doctor

Exit status: 0 all is well, 1 a check failed, 2 wrong usage.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cpfeed")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    doctor = commands.add_parser(
        "doctor", help="look for what keeps a job from running", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    doctor.add_argument("--server", default="", help="such as 127.0.0.1:8470")
    doctor.add_argument("--session", default="", help="its id")
    doctor.add_argument("--cp_size", type=int, default=0,
                        help="ranks that the job has")
    doctor.add_argument("--consumers", type=int, default=0,
                        help="readers of each rank")
    doctor.add_argument("--layout", default="", help="that the job expects")
    for name, text in (
            ("tls_ca", "use TLS: PEM file with who signs the server's "
                       "certificate"),
            ("tls_cert", "PEM file with this client's certificate chain"),
            ("tls_key", "PEM file with its key"),
            ("token_file", "file with a bearer token; needs TLS")):
        doctor.add_argument(f"--{name}", metavar="FILE", help=(
            f"{text} (CPFEED_{name.upper()})"))
    doctor.add_argument("--timeout", type=float, default=5.0,
                        help="seconds for each call")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _line(finding: Finding) -> str:
    return f"{'ok  ' if finding.ok else 'FAIL'} {finding.name}: {finding.text}"


def main() -> int:
    """Runs a command; returns the exit status."""
    args = _parser().parse_args()
    job = None
    if not args.server and not args.session and os.environ.get("CPFEED_MESH"):
        try:
            job = Job.from_environment()
            job.mesh.coordinates(job.rank)
        except UsageError as error:
            findings = [Finding("environment", False, str(error))]
            print(json.dumps([dataclasses.asdict(f) for f in findings])
                  if args.json else _line(findings[0]))
            return 1
    security = Security.from_environment()
    for name in ("tls_ca", "tls_cert", "tls_key", "token_file"):
        if getattr(args, name) is not None:
            security = dataclasses.replace(security,
                                           **{name: getattr(args, name)})
    question = Question(args.server, args.session, args.cp_size,
                        args.consumers, args.layout, job, args.timeout,
                        security)
    findings = []
    for finding in examine(question):
        findings.append(finding)
        if not args.json:
            print(_line(finding), flush=True)
    if args.json:
        print(json.dumps([dataclasses.asdict(f) for f in findings], indent=1))
    return 0 if all(finding.ok for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
