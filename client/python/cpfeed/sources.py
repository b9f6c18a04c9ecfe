"""A loader's batches, and going back among them."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from cpfeed.errors import CannotRewind

_JSON, _TORCH = b"j", b"t"


def encode_state(state: Any) -> bytes:
    """The bytes of a state_dict: JSON where that is lossless, else torch's
    format."""
    try:
        text = json.dumps(state)
        if json.loads(text) == state:
            return _JSON + text.encode()
    except (TypeError, ValueError):
        pass
    import io

    import torch
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return _TORCH + buffer.getvalue()


def decode_state(data: bytes) -> Any:
    """The reverse. Runs no code out of `data`, which came over the network.

    Raises:
      CannotRewind: the bytes are no such state.
    """
    try:
        if data[:1] == _JSON:
            return json.loads(data[1:])
        if data[:1] == _TORCH:
            import io

            import torch
            return torch.load(io.BytesIO(data[1:]), weights_only=True)
    except Exception as error:  # Whatever a parser makes of wrong bytes.
        raise CannotRewind(f"producer_state cannot be read: {error}",
                           reason="CURSOR_MISMATCH") from None
    raise CannotRewind("producer_state is not one of a Feeder",
                       reason="CURSOR_MISMATCH")


class BatchSource:
    """Passes over an iterable, from a number or a state on.

    A source with `state_dict` and `load_state_dict` (torchdata's
    StatefulDataLoader) is set to its state; another one is iterated anew and
    its first batches are skipped, for which it must give the same batches
    again (the service refuses a replay that differs). An iterator can only go
    on.
    """

    def __init__(self, source: Iterable[Any], epochs: int | None):
        self._source = source
        self._epochs = epochs
        self._stateful = (hasattr(source, "state_dict") and
                          hasattr(source, "load_state_dict"))
        self._once = iter(source) if isinstance(source, Iterator) else None
        self._initial: Any = None
        self._taken = 0
        self._batches: Iterator[tuple[int, Any, bytes]] | None = None

    def restore(self, sequence: int, state: bytes | None) -> None:
        """Goes to the batch of that number; `state` is the one before it.

        Raises:
          CannotRewind: the source cannot go there.
        """
        if self._stateful:
            self._restore_state(sequence, state)
        else:
            self._skip_to(sequence)
        self._taken = sequence

    def _restore_state(self, sequence: int, state: bytes | None) -> None:
        if state is None and sequence > 0:
            raise CannotRewind(
                f"the session wants batch {sequence} and has no producer_state "
                "to restore the loader from", reason="CURSOR_MISMATCH")
        source: Any = self._source
        if self._initial is None:
            self._initial = encode_state(source.state_dict())
        if state is None:
            if self._batches is not None:
                source.load_state_dict(decode_state(self._initial))
            self._batches = self._passes(0, resumed=False)
            return
        saved = decode_state(state)
        try:
            epoch, inner = saved["epoch"], saved["source"]
        except (TypeError, KeyError):
            raise CannotRewind("producer_state is not one of a Feeder",
                               reason="CURSOR_MISMATCH") from None
        source.load_state_dict(inner)
        self._batches = self._passes(epoch, resumed=True)

    def _skip_to(self, sequence: int) -> None:
        if self._once is None or self._batches is None:
            self._taken = 0
            self._batches = self._passes(0, resumed=False)
        if sequence < self._taken:
            raise CannotRewind(
                f"the session wants batch {sequence} again and the source is an "
                f"iterator that is at batch {self._taken}; give an iterable "
                "that can be iterated anew, or one with state_dict",
                reason="CURSOR_MISMATCH")
        for skipped in range(self._taken, sequence):
            if next(self._batches, None) is None:
                raise CannotRewind(
                    f"the session wants batch {sequence} and the source has "
                    f"only {skipped}", reason="CURSOR_MISMATCH")

    def next(self) -> tuple[int, Any, bytes] | None:
        """Pass, batch, and the state behind it; None at the end."""
        assert self._batches is not None
        item = next(self._batches, None)
        self._taken += item is not None
        return item

    def _passes(self, epoch: int,
                resumed: bool) -> Iterator[tuple[int, Any, bytes]]:
        while self._epochs is None or epoch < self._epochs:
            self._set_epoch(epoch)
            empty = True
            for item in self._one_pass(epoch):
                empty = False
                yield item
            if self._once is not None:
                return
            if empty and not resumed:
                return
            # A loader that was set to the end of a pass may begin with an
            # empty one.
            epoch += not (empty and resumed)
            resumed = False

    def _set_epoch(self, epoch: int) -> None:
        for owner in (self._source, getattr(self._source, "sampler", None),
                      getattr(self._source, "batch_sampler", None),
                      getattr(self._source, "dataset", None)):
            if callable(getattr(owner, "set_epoch", None)):
                owner.set_epoch(epoch)  # type: ignore[union-attr]

    def _one_pass(self, epoch: int) -> Iterator[tuple[int, Any, bytes]]:
        batches = self._once or iter(self._source)
        if not self._stateful:
            for batch in batches:
                yield epoch, batch, b""
            return
        # One batch ahead, to know whether the state is that of a pass's end.
        source: Any = self._source
        batch = next(batches, None)
        while batch is not None:
            state = source.state_dict()
            after = next(batches, None)
            yield epoch, batch, encode_state(
                {"epoch": epoch + (after is None), "source": state})
            batch = after
