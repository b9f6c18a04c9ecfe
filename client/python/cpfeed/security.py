"""TLS and tokens of clients."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import grpc

from cpfeed.errors import UsageError


class _Token(grpc.AuthMetadataPlugin):
    """A bearer token out of a file, which is read for each call: it may
    change."""

    def __init__(self, path: str):
        self._path = path

    def __call__(self, context: Any, callback: Callable[..., None]) -> None:
        try:
            token = pathlib.Path(self._path).read_text("utf-8").strip()
        except OSError as error:
            callback((), error)
            return
        callback((("authorization", f"Bearer {token}"),), None)


@dataclasses.dataclass(frozen=True)
class Security:
    """How a client says who it is, and knows that the server is the right one.

    Security() is without TLS. Files are read again whenever a channel is
    opened, the token for each call.

    Attributes:
      tls_ca: PEM file with who signs the server's certificate; empty with
        tls_cert: the authorities that gRPC knows.
      tls_cert: PEM file with the client's own certificate chain.
      tls_key: PEM file with its key.
      token_file: file with a bearer token; needs TLS.
    """

    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    token_file: str = ""

    @staticmethod
    def from_environment(
            environment: Mapping[str, str] = os.environ) -> "Security":
        """CPFEED_TLS_CA, CPFEED_TLS_CERT, CPFEED_TLS_KEY, CPFEED_TOKEN_FILE,
        as the command line programs have them."""
        return Security(*(environment.get(name, "") for name in (
            "CPFEED_TLS_CA", "CPFEED_TLS_CERT", "CPFEED_TLS_KEY",
            "CPFEED_TOKEN_FILE")))

    def credentials(self) -> grpc.ChannelCredentials | None:
        """gRPC's form; None without TLS.

        Raises:
          UsageError: they do not fit together, or a file cannot be read.
        """
        if bool(self.tls_cert) != bool(self.tls_key):
            raise UsageError("one of tls_cert and tls_key is missing; both or "
                             "neither must be given", reason="BAD_OPTION")
        if not self.tls_ca and not self.tls_cert:
            if self.token_file:
                raise UsageError("token_file is given without TLS; tls_ca or "
                                 "tls_cert must be given", reason="BAD_OPTION")
            return None
        channel = grpc.ssl_channel_credentials(
            _content(self.tls_ca), _content(self.tls_key),
            _content(self.tls_cert))
        if not self.token_file:
            return channel
        return grpc.composite_channel_credentials(
            channel, grpc.metadata_call_credentials(_Token(self.token_file)))


# What functions of this package take; None is Security.from_environment().
Credentials = grpc.ChannelCredentials | Security | None


def channel_credentials(given: Credentials) -> grpc.ChannelCredentials | None:
    """What a channel is opened with; None without TLS."""
    if given is None:
        given = Security.from_environment()
    return given.credentials() if isinstance(given, Security) else given


def _content(path: str) -> bytes | None:
    if not path:
        return None
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}",
                         reason="BAD_OPTION") from None
