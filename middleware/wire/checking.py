"""Parts of checks of parameters; each raises InvalidParameterError, which names the field and the rule."""

from __future__ import annotations

from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.message_rows import ANSWER_OVERHEAD_BYTES
from telesto.protocol.errors import InvalidParameterError

#: Bytes of one result of a put on the wire, at most.
PUT_RESULT_BYTES = 20


def check_elements(
    field: str, count: int, settings: ServerSettings, frame_bytes: int, result_bytes: int = PUT_RESULT_BYTES
) -> None:
    """Checks the number of elements of a put, all of whose results must fit the frame of the answer."""
    fitting = (frame_bytes - ANSWER_OVERHEAD_BYTES) // result_bytes
    count_max = min(settings.max_put_elements, fitting)
    if count > count_max:
        raise invalid(field, f"{count} elements", f"at most {count_max}")


def check_positive(field: str, value: int) -> None:
    """Checks an id or a count."""
    if value <= 0:
        raise invalid(field, value, "above 0")


def check_not_negative(field: str, value: int) -> None:
    """Checks an id or a count that may be left out."""
    if value < 0:
        raise invalid(field, value, "0 or above")


def invalid(field: str, value: object, rule: str) -> InvalidParameterError:
    """Makes the error for a value that breaks a rule."""
    return InvalidParameterError(f"{field}: {value} is not allowed; it must be {rule}")
