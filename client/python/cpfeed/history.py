"""What a consumer remembers of the steps that it has had."""

import collections

from cpfeed.errors import SequenceConflict

# Steps of which it is remembered what they were.
_REMEMBERED = 4096


class StepHistory:
    """Tells new steps from those that come again, and where a session must
    begin so that no consumer misses a step.

    Attributes:
      next_step: the first that has not come yet.
    """

    def __init__(self, first_step: int, start_cursor: bytes | None,
                 max_step_skew: int):
        """`start_cursor` is the one behind the step before `first_step`; the
        last two are for the leader, who alone gets cursors."""
        self.next_step = first_step
        self._skew = max_step_skew
        self._digests: dict[int, int] = {}
        self._cursors: collections.deque[tuple[int, bytes | None]] = (
            collections.deque([(first_step - 1, start_cursor)]))

    def take(self, step: int, digest: int,
             cursor: bytes | None = None) -> bool:
        """Whether the step comes for the first time.

        Raises:
          SequenceConflict: it does not, and is not what it was.
        """
        if step < self.next_step:
            if self._digests.get(step, digest) != digest:
                raise SequenceConflict(
                    f"step {step} comes again with other content; a loader "
                    "must give the same batches again", code="ALREADY_EXISTS",
                    reason="SEQUENCE_CONFLICT")
            return False
        self.next_step = step + 1
        self._digests[step] = digest
        self._digests.pop(step - _REMEMBERED, None)
        if cursor is not None:
            self._cursors.append((step, cursor))
            while (len(self._cursors) > 1 and
                   self._cursors[1][0] <= step - self._skew):
                self._cursors.popleft()
        return True

    @property
    def safe_cursor(self) -> bytes | None:
        """Behind a step that every consumer has: nobody is further than the
        skew behind the newest. None is the beginning."""
        return self._cursors[0][1]
