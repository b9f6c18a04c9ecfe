"""Requests of a stream that threads put in and gRPC takes out."""

import collections
import threading
from collections.abc import Iterator


class Outbox:
    """A bounded queue of messages; iterating it is gRPC's part.

    All waiting is on `changed`, which the owner notifies when its own state
    changes; so one lock guards both.
    """

    def __init__(self, most: int = 8):
        self.changed = threading.Condition()
        self._most = most
        self._messages: collections.deque[bytes] = collections.deque()
        self._closed = False

    def put(self, message: bytes) -> bool:
        """Waits for room; False if the stream is over."""
        with self.changed:
            self.changed.wait_for(
                lambda: self._closed or len(self._messages) < self._most)
            if self._closed:
                return False
            self._messages.append(message)
            self.changed.notify_all()
            return True

    def close(self) -> None:
        """No more messages; those that are in are still sent."""
        with self.changed:
            self._closed = True
            self.changed.notify_all()

    def __iter__(self) -> Iterator[bytes]:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self._closed or self._messages)
                if not self._messages:
                    return
                message = self._messages.popleft()
                self.changed.notify_all()
            yield message
            del message


def identity(message: bytes) -> bytes:
    """In place of a serializer: the message is bytes already."""
    return message
