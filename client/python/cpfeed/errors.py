"""Errors, typed by the reason that the server gives.

A reason is an upper-case word such as NOT_DIVISIBLE and is part of the API;
texts are for people and may change.
"""

from typing import Any

import grpc

from cpfeed import api

_DOMAIN = "cpfeed.dev"


class CpfeedError(Exception):
    """What all errors of this package are.

    Attributes:
      code: name of the gRPC status code, such as "INVALID_ARGUMENT".
      reason: the word that programs decide by; "" where there is none.
      message: for people.
    """

    def __init__(self, message: str, *, code: str = "INVALID_ARGUMENT",
                 reason: str = ""):
        super().__init__(f"{reason}: {message}" if reason else message)
        self.message = message
        self.code = code
        self.reason = reason


class UsageError(CpfeedError):
    """The package is used in a way that cannot work."""


class BatchError(CpfeedError, ValueError):
    """A batch cannot be sent as it is."""


class BatchRejected(BatchError):
    """The server refused a batch.

    Attributes:
      sequence: the producer's number of the batch.
      batch_id: what the loader called it.
    """

    sequence: int = -1
    batch_id: str = ""


class SequenceConflict(CpfeedError):
    """A replayed batch differs from what was sent before: stop."""


class CannotRewind(CpfeedError):
    """The source of batches cannot go to where the session wants it."""


class Fenced(CpfeedError):
    """A newer feeder, reader or generation is there: exit."""


class Rewound(CpfeedError):
    """The session went to another step: open again."""


class SessionNotFound(CpfeedError, LookupError):
    """There is no such session: not yet, or not any more."""


class SessionExists(CpfeedError):
    """The name is taken by a session of another spec."""


class TopologyMismatch(CpfeedError):
    """cp_size, ranks or heads do not fit the session."""


class CursorError(CpfeedError):
    """A cursor is of another session, changed, or no longer deliverable."""


class ChecksumMismatch(CpfeedError):
    """Bytes or plans differ from what the server made."""


class Unavailable(CpfeedError):
    """The server is away or stops: try again."""


class ServerError(CpfeedError):
    """Any other error of the server."""


_BY_REASON: dict[str, type[CpfeedError]] = {
    "FENCED": Fenced,
    "REWOUND": Rewound,
    "SEQUENCE_CONFLICT": SequenceConflict,
    "SESSION_NOT_FOUND": SessionNotFound,
    "SESSION_DELETED": SessionNotFound,
    "SESSION_EXPIRED": SessionNotFound,
    "SESSION_EXISTS": SessionExists,
    "TOPOLOGY_MISMATCH": TopologyMismatch,
    "CURSOR_MISMATCH": CursorError,
    "CURSOR_EXPIRED": CursorError,
    "CHECKSUM_MISMATCH": ChecksumMismatch,
    "DRAINING": Unavailable,
}

_CODES = {code.value[0]: code.name for code in grpc.StatusCode}


def _reason_of(status: Any) -> str:
    for detail in status.details:
        info = api.ErrorInfo()
        if detail.Unpack(info) and info.domain == _DOMAIN:
            return info.reason
    return ""


def error_from_status(status: Any) -> CpfeedError:
    """The error that a google.rpc.Status describes."""
    code = _CODES.get(status.code, "UNKNOWN")
    reason = _reason_of(status)
    kind = _BY_REASON.get(reason)
    if kind is None:
        # A server that stops may cancel what it has not answered.
        away = code in ("UNAVAILABLE", "CANCELLED")
        kind = Unavailable if away else ServerError
    return kind(status.message, code=code, reason=reason)


def rejection_from_receipt(receipt: Any, batch_id: str) -> CpfeedError:
    """The error of a batch whose receipt says REJECTED."""
    status = receipt.status
    reason = _reason_of(status)
    kind = _BY_REASON.get(reason, BatchRejected)
    error = kind(f"batch {receipt.sequence}: {status.message}",
                 code=_CODES.get(status.code, "UNKNOWN"), reason=reason)
    if isinstance(error, BatchRejected):
        error.sequence = receipt.sequence
        error.batch_id = batch_id
    return error


def error_from_rpc(error: grpc.RpcError) -> CpfeedError:
    """The error of a call that gRPC says has failed."""
    code, text = error.code(), error.details() or ""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = api.Status.FromString(value)
            if status.code == code.value[0]:
                return error_from_status(status)
    return error_from_status(api.Status(code=code.value[0], message=text))
