"""Looks for what keeps a job from running, before it runs."""

import dataclasses
import importlib.metadata
import re
from collections.abc import Callable, Iterator
from typing import Any

from cpfeed.errors import CpfeedError, SessionNotFound
from cpfeed.mesh import Job
from cpfeed.security import Security
from cpfeed.sessions import Client
from cpfeed.version import __version__

_SESSION_ID = re.compile(r"[A-Za-z0-9._-]{1,63}")
_STATES = ("UNSPECIFIED", "READY", "RUNNING", "STALLED", "FINISHED", "FAILED",
           "DRAINING")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One check.

    Attributes:
      name: of the check.
      ok: whether it is as it must be.
      text: what was found.
    """

    name: str
    ok: bool
    text: str


@dataclasses.dataclass(frozen=True)
class Question:
    """What is to be looked at; what is empty is not.

    Attributes:
      server: such as "127.0.0.1:8470".
      session: its id.
      cp_size: what the job has.
      consumers_per_cp_rank: likewise.
      layout: what the job expects.
      job: checked as a whole; gives server, session and sizes.
      timeout: seconds for each call.
      security: TLS and token; those of the environment by default.
    """

    server: str = ""
    session: str = ""
    cp_size: int = 0
    consumers_per_cp_rank: int = 0
    layout: str = ""
    job: Job | None = None
    timeout: float = 5.0
    security: Security = dataclasses.field(
        default_factory=Security.from_environment)


def _versions() -> Finding:
    import google.protobuf
    import grpc
    import numpy
    import xxhash
    return Finding("versions", True,
                   f"cpfeed {__version__}, grpcio {grpc.__version__}, protobuf "
                   f"{google.protobuf.__version__}, numpy {numpy.__version__}, "
                   f"xxhash {xxhash.VERSION}")


def _torch() -> Finding:
    # Importing it would take longer than all else here.
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return Finding("torch", True, "not there; cpfeed.torch and "
                       "cpfeed.adapters need it")
    return Finding("torch", True, version)


def _names(session: str) -> Finding:
    ok = _SESSION_ID.fullmatch(session) is not None
    return Finding("names", ok, f"session {session!r}" + (
        "" if ok else "; must be 1 to 63 letters, digits, '-', '_' or '.'"))


def _mesh(job: Job) -> Finding:
    return Finding(
        "mesh", True,
        f"rank {job.rank} of {job.mesh.size} is cp_rank {job.cp_rank} of "
        f"{job.cp_size}, consumer {job.consumer} of "
        f"{job.consumers_per_cp_rank}, in session {job.session} on "
        f"{job.server}")


def _server(client: Client) -> Finding:
    serving = client.is_serving()
    return Finding("server", serving, f"{client.server} is "
                   f"{'serving' if serving else 'not serving'}")


def _session(session: Any, question: Question) -> Finding:
    topology = session.topology
    state = _STATES[session.state]
    wrong = [f"{name} is {found}; must be {wanted}"
             for name, found, wanted in (
                 ("cp_size", topology.cp_size, question.cp_size),
                 ("consumers_per_cp_rank", topology.consumers_per_cp_rank,
                  question.consumers_per_cp_rank))
             if wanted and found != wanted]
    if state in ("STALLED", "FAILED"):
        wrong.append(session.state_detail)
    return Finding("session", not wrong, f"{session.name} is {state}, at step "
                   f"{session.next_step}, cp_size {topology.cp_size}" +
                   "".join("; " + text for text in wrong))


def _layout(session: Any, question: Question) -> Finding:
    from cpfeed import api
    layout = {number: name.removeprefix("LAYOUT_") for name, number
              in api.enum_values("Layout").items()}[session.sharding.layout]
    if layout == "UNSPECIFIED":
        layout = "HEAD_TAIL_PER_SEQUENCE"
    wanted = question.layout.upper()
    ok = wanted in ("", layout)
    return Finding("layout", ok,
                   layout + ("" if ok else f"; must be {wanted}"))


def _connections(session: Any) -> Finding:
    waiting = [f"producer {position.producer}"
               for position in session.producer_positions
               if not position.connected and not position.finished]
    waiting += [f"cp_rank {position.cp_rank} consumer {position.consumer}"
                for position in session.consumer_positions
                if not position.connected]
    return Finding("connections", True, "all there" if not waiting else
                   "not connected: " + ", ".join(waiting))


def examine(question: Question) -> Iterator[Finding]:
    """The checks, one after the other; what needs a failed one is left out."""
    yield _versions()
    yield _torch()
    job = question.job
    if job is not None:
        yield _mesh(job)
        question = dataclasses.replace(
            question, server=job.server, session=job.session,
            cp_size=job.cp_size,
            consumers_per_cp_rank=job.consumers_per_cp_rank)
    if question.session:
        yield _names(question.session)
    if not question.server:
        return
    try:
        client = Client(question.server, timeout=question.timeout,
                        credentials=question.security)
    except CpfeedError as error:
        yield Finding("tls", False, str(error))
        return
    with client:
        server = _checked("server", lambda: _server(client))
        yield server
        if not server.ok or not question.session:
            return
        try:
            session = client.get_session(question.session)
        except SessionNotFound as error:
            yield Finding("session", False, f"{error.message}; the leader "
                          "(cp_rank 0, consumer 0) makes it")
            return
        yield _session(session, question)
        yield _layout(session, question)
        yield _connections(session)


def _checked(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except CpfeedError as error:
        return Finding(name, False, str(error))
