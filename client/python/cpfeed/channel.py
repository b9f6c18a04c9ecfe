"""Channels with the settings that the server expects, and unary calls."""

import random
import time
from collections.abc import Callable
from typing import Any

import grpc

from cpfeed import trace
from cpfeed.errors import CpfeedError, Unavailable, error_from_rpc
from cpfeed.security import Credentials, channel_credentials

# Seconds that a unary call waits for the server.
CALL_TIMEOUT = 20.0

_OPTIONS = (
    ("grpc.max_receive_message_length", 8 << 20),
    ("grpc.max_send_message_length", 8 << 20),
    # A stalled reader must not let the server run ahead by megabytes.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Channels of one process to one server do not share a connection.
    ("grpc.use_local_subchannel_pool", 1),
)


def open_channel(server: str, credentials: Credentials = None) -> grpc.Channel:
    """A channel to a server such as "127.0.0.1:8470". Connects when used.

    Without `credentials` those of the environment are taken; Security() is a
    channel without TLS whatever the environment says.
    """
    known = channel_credentials(credentials)
    if known is None:
        return grpc.insecure_channel(server, options=_OPTIONS)
    return grpc.secure_channel(server, known, options=_OPTIONS)


class _Refused(Exception):
    """The server has not looked at the call."""

    def __init__(self, error: grpc.RpcError):
        super().__init__()
        self.error = error


def call(channel: grpc.Channel, method: str, request: Any, response: Any,
         timeout: float = CALL_TIMEOUT) -> Any:
    """Calls a unary method by its path; `response` is the class of the answer.

    Raises:
      CpfeedError: as the method's documentation says; Unavailable also where
        the server does not answer in time.
    """
    unary = channel.unary_unary(
        method,
        request_serializer=type(request).SerializeToString,
        response_deserializer=response.FromString)
    deadline = time.monotonic() + timeout

    def attempt() -> Any:
        try:
            return unary(request, timeout=max(deadline - time.monotonic(), 0),
                         wait_for_ready=True, metadata=trace.metadata())
        except grpc.RpcError as error:
            # gRPC refuses calls that come while all of the server's threads are
            # busy, as when hundreds of ranks start at once; the server's own
            # refusals have a reason.
            if (error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
                    and not error_from_rpc(error).reason):
                raise _Refused(error) from None
            raise

    try:
        return retry(attempt, (_Refused,), timeout)
    except _Refused as refused:
        raise error_from_rpc(refused.error) from None
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            raise Unavailable(
                f"the server does not answer within {timeout:g} s",
                code="UNAVAILABLE") from None
        raise error_from_rpc(error) from None


def backoff(pause: float) -> float:
    """A pause of about that length: clients of a server that comes back must
    not all call at once."""
    return pause * random.uniform(0.5, 1.0)


def retry(attempt: Callable[[], Any], kinds: tuple[type[Exception], ...],
          wait: float) -> Any:
    """attempt(), again while it raises one of `kinds`, for `wait` seconds."""
    deadline = time.monotonic() + wait
    pause = 0.01
    while True:
        try:
            return attempt()
        except kinds:
            if time.monotonic() + pause > deadline:
                raise
        time.sleep(backoff(pause))
        pause = min(2 * pause, 1.0)
