"""The control plane: sessions, cursors and plans."""

from collections.abc import Iterator, Sequence
from typing import Any

from cpfeed import api
from cpfeed.channel import CALL_TIMEOUT, call, open_channel, retry
from cpfeed.errors import SessionNotFound, UsageError
from cpfeed.security import Credentials

_SESSIONS = "/cpfeed.v1.SessionService/"


def session_name(session: str) -> str:
    """The resource name "sessions/{id}" of an id or of such a name."""
    return session if session.startswith("sessions/") else "sessions/" + session


def enum_number(enum: str, prefix: str, word: str) -> int:
    """The number of `word` in an enum; "" is the enum's zero.

    Raises:
      UsageError: there is no such word; the message has all of them.
    """
    values = {name.removeprefix(prefix): number
              for name, number in api.enum_values(enum).items()}
    if not word:
        return 0
    if word.upper() not in values:
        words = [name for name, number in values.items() if number]
        raise UsageError(f"{enum.lower()} is {word!r}; must be one of "
                         f"{', '.join(words)}", reason="BAD_OPTION")
    return values[word.upper()]


def sharding_spec(layout: str = "", *, objective: str = "", mask: str = "",
                  **fields: Any) -> Any:
    """A cpfeed.v1.ShardingSpec: `layout` by name, other fields as there."""
    return api.ShardingSpec(
        layout=enum_number("Layout", "LAYOUT_", layout),
        objective=enum_number("Objective", "OBJECTIVE_", objective),
        mask=enum_number("MaskKind", "MASK_KIND_", mask), **fields)


def session_spec(cp_size: int, *, consumers_per_cp_rank: int = 1,
                 layout: str = "", producers: Sequence[str] = (),
                 retention: str = "", max_step_skew: int = 0,
                 max_uncommitted_steps: int = 0, memory_budget_bytes: int = 0,
                 max_batch_bytes: int = 0, max_message_bytes: int = 0,
                 labels: dict[str, str] | None = None,
                 topology: dict[str, Any] | None = None,
                 **sharding: Any) -> Any:
    """A cpfeed.v1.Session to be made; 0 and "" take the server's defaults.

    Example: session_spec(8, layout="HEAD_TAIL_PER_SEQUENCE", auto_pad=True)

    Args:
      cp_size: ranks of the context-parallel group.
      consumers_per_cp_rank: ranks (tensor-parallel times pipeline) that read
        each shard on their own.
      layout: HEAD_TAIL_PER_SEQUENCE, BALANCED, ...
      producers: ids of the loaders, in the order of their turns.
      retention: REPLAY or RETAIN.
      max_step_skew: steps that the fastest consumer may be ahead.
      max_uncommitted_steps: of RETAIN, steps between two commits.
      memory_budget_bytes: bytes that the session may hold.
      max_batch_bytes: payload of one batch.
      max_message_bytes: payload of one stream message.
      labels: free text for people.
      topology: further fields of cpfeed.v1.Topology, such as num_heads.
      **sharding: further fields of cpfeed.v1.ShardingSpec.
    """
    session = api.Session(
        sharding=sharding_spec(layout, **sharding), producers=producers,
        labels=labels or {})
    session.topology.cp_size = cp_size
    session.topology.consumers_per_cp_rank = consumers_per_cp_rank
    for name, value in (topology or {}).items():
        setattr(session.topology, name, value)
    session.delivery.retention = enum_number("Retention", "RETENTION_",
                                             retention)
    session.delivery.max_step_skew = max_step_skew
    session.delivery.max_uncommitted_steps = max_uncommitted_steps
    session.limits.memory_budget_bytes = memory_budget_bytes
    session.limits.max_batch_bytes = max_batch_bytes
    session.limits.max_message_bytes = max_message_bytes
    return session


class Client:
    """Unary calls to one server. Thread-safe. A context manager."""

    def __init__(self, server: str, *,
                 credentials: Credentials = None,
                 timeout: float = CALL_TIMEOUT):
        """`server` such as "127.0.0.1:8470"; nothing connects yet."""
        self.server = server
        self._channel = open_channel(server, credentials)
        self._timeout = timeout

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    def _call(self, method: str, request: Any, response: Any) -> Any:
        return call(self._channel, method, request, response, self._timeout)

    def create_session(self, session: str, spec: Any, *,
                       start_cursor: bytes | None = None,
                       allow_topology_change: bool = False) -> Any:
        """Makes a session; the same spec again gives the same session.

        Raises:
          SessionExists: the id is taken by a session of another spec.
          CpfeedError: the spec is wrong, or the server is full.
        """
        request = api.CreateSessionRequest(
            session_id=session.removeprefix("sessions/"), session=spec,
            allow_topology_change=allow_topology_change)
        if start_cursor is not None:
            request.start_cursor.MergeFromString(start_cursor)
        return self._call(_SESSIONS + "CreateSession", request,
                          api.CreateSessionResponse).session

    def get_session(self, session: str, wait: float = 0.0) -> Any:
        """The session, with its positions; waits `wait` seconds for it.

        Raises:
          SessionNotFound: there is (still) none.
        """
        request = api.GetSessionRequest(name=session_name(session))
        return retry(
            lambda: self._call(_SESSIONS + "GetSession", request,
                               api.GetSessionResponse).session,
            (SessionNotFound,), wait)

    def list_sessions(self) -> Iterator[Any]:
        """All sessions, by name."""
        request = api.ListSessionsRequest()
        while True:
            page = self._call(_SESSIONS + "ListSessions", request,
                              api.ListSessionsResponse)
            yield from page.sessions
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def delete_session(self, session: str, *, force: bool = False,
                       allow_missing: bool = False) -> None:
        """Ends a session; `force` also while steps are not acknowledged."""
        self._call(_SESSIONS + "DeleteSession",
                   api.DeleteSessionRequest(name=session_name(session),
                                            force=force,
                                            allow_missing=allow_missing),
                   api.DeleteSessionResponse)

    def seek(self, session: str, cursor: bytes) -> int:
        """Goes to a cursor, after a restart; returns the new generation.

        Raises:
          CursorError: the cursor is of another session, or what lies behind it
            can no longer be delivered.
        """
        request = api.SeekSessionRequest(name=session_name(session))
        request.cursor.MergeFromString(cursor)
        return self._call(_SESSIONS + "SeekSession", request,
                          api.SeekSessionResponse).session.generation

    def commit(self, session: str, cursor: bytes) -> int:
        """The checkpoint with this cursor is durable; returns its step.

        Raises:
          CursorError: the cursor is of another session.
        """
        request = api.CommitCursorRequest(name=session_name(session))
        request.cursor.MergeFromString(cursor)
        return self._call(_SESSIONS + "CommitCursor", request,
                          api.CommitCursorResponse).committed_step

    def open_session(self, session: str, spec: Any,
                     cursor: bytes | None = None) -> int:
        """Makes the session or, with a cursor, goes on behind it.

        With a cursor an existing session is sought to it; where there is none
        (the server is new) it is made to start there. Returns the generation.
        """
        if not cursor:
            return self.create_session(session, spec).generation
        try:
            self.get_session(session)
        except SessionNotFound:
            return self.create_session(session, spec,
                                       start_cursor=cursor).generation
        return self.seek(session, cursor)

    def plan(self, cp_size: int, seq_lens: Sequence[int],
             seq_lens_padded: Sequence[int] = (), *,
             sequences_per_row: Sequence[int] = (),
             shardings: Sequence[Any] = (),
             include_segments: bool = False) -> list[Any]:
        """Dry run: one cpfeed.v1.LayoutPlan for each of `shardings`."""
        request = api.PlanBatchRequest(
            cp_size=cp_size, seq_lens=seq_lens,
            seq_lens_padded=seq_lens_padded,
            sequences_per_row=sequences_per_row, shardings=shardings,
            include_segments=include_segments)
        return list(self._call("/cpfeed.v1.PlanService/PlanBatch", request,
                               api.PlanBatchResponse).plans)

    def is_serving(self, service: str = "readiness") -> bool:
        """Whether the server is healthy under that name."""
        answer = self._call("/grpc.health.v1.Health/Check",
                            api.HealthCheckRequest(service=service),
                            api.HealthCheckResponse)
        return answer.status == 1  # SERVING
