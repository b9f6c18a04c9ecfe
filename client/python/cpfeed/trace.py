"""W3C trace context: the server logs whose call it was."""

import os
import re
import secrets

_FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_OWN_TRACE = secrets.token_hex(16)


def metadata() -> tuple[tuple[str, str], ...]:
    """The `traceparent` of a new call.

    Its trace is that of the environment's TRACEPARENT, as tools that start
    processes set it, else one of this process; its span is new.
    """
    match = _FORM.fullmatch(os.environ.get("TRACEPARENT", ""))
    trace, flags = (match[1], match[3]) if match else (_OWN_TRACE, "01")
    return (("traceparent", f"00-{trace}-{secrets.token_hex(8)}-{flags}"),)
