"""Stream messages whose payload is copied once at most.

A stream message is an ordinary protobuf message of small fields and, last,
`bytes payload = 15`. Here the small fields go through protobuf and the payload
stays beside them as a view.
"""

from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError

from cpfeed.errors import CpfeedError

_PAYLOAD_TAG = 15 << 3 | 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def _broken(what: str) -> CpfeedError:
    return CpfeedError(f"message {what}", reason="PROTOCOL_ERROR")


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode(header: Any, pieces: Sequence[memoryview] = ()) -> bytes:
    """The message `header` with the bytes of `pieces` as its payload."""
    size = sum(piece.nbytes for piece in pieces)
    if size == 0:
        return header.SerializeToString()
    return b"".join((header.SerializeToString(), bytes((_PAYLOAD_TAG,)),
                     _encode_varint(size), *pieces))


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _broken("ends inside a number" if shift < 64 else
                  "has a number of more than 64 bits")


def _skip(message: memoryview, kind: int, at: int) -> int:
    """Where the field ends whose value of wire type `kind` begins at `at`."""
    if kind == _VARINT:
        return _read_varint(message, at)[1]
    if kind == _FIXED64:
        return at + 8
    if kind == _FIXED32:
        return at + 4
    if kind == _BYTES:
        size, at = _read_varint(message, at)
        return at + size
    raise _broken(f"has a field of wire type {kind}")


def decode(message: bytes, kind: Any) -> tuple[Any, memoryview]:
    """Takes a message of class `kind` apart: it without payload, payload.

    Raises:
      CpfeedError: the bytes are no message.
    """
    view = memoryview(message)
    payload = view[:0]
    header: list[memoryview] = []
    at = 0
    while at < len(view):
        begin = at
        tag, at = _read_varint(view, at)
        end = _skip(view, tag & 7, at)
        if end > len(view):
            raise _broken("ends inside a field")
        if tag == _PAYLOAD_TAG:
            size, at = _read_varint(view, at)
            payload = view[at:at + size]
        else:
            header.append(view[begin:end])
        at = end
    try:
        return kind.FromString(b"".join(header)), payload
    except DecodeError as error:
        raise _broken(f"cannot be read: {error}") from None
