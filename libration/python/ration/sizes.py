"""Sizes as people write and read them: a number with a unit, or a share."""
from __future__ import annotations

import re
from typing import Any, Optional, Union

from . import _warnings

Size = Union[int, float, str]

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LEAST_MIB = 512  # fewer might be GiB, as on the command line
_MOST_MIB = 1 << 20  # more than any device has
_MOST_BYTES = 1 << 60
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)([kmgt]i?b?|%)\s*", re.IGNORECASE)


def with_unit(size: Size, of: str, warn: bool = True) -> str:
    """Returns a size as text: `'2GiB'` as it is, `0.5` as `'50%'`. Reads a number without a unit as MiB, as TensorFlow
    does, and warns.

    Args:
        size: a text, a share (a float above 0, at most 1), or a number of MiB.
        of: the name of the call that takes the size, for the warning.
        warn: False if the call documents that a number is MiB.

    Raises:
        ValueError: the value is not a size, or is a number that might as well mean GiB.
    """
    if isinstance(size, bool) or not isinstance(size, (int, float, str)):
        raise ValueError(f"A size is text such as '2GiB' or '50%', not {size!r}")
    if isinstance(size, str):
        joined = "".join(size.split())
        if joined != size.strip() and _SIZE.fullmatch(joined):
            raise ValueError(f"'{size}' is not a size: write '{joined}', without a space")
        return size
    if isinstance(size, float) and 0 < size <= 1:
        return f"{size * 100:.12g}%"
    if not size > 0:
        raise ValueError(f"A size is more than 0, not {size}; to hide a device: set_visible_devices([], 'GPU')")
    if size >= _MOST_BYTES:
        raise ValueError(f"{size} is more than any device has: write a unit, such as '2GiB'")
    if size >= _MOST_MIB:
        raise ValueError(f"{size:.0f} looks like bytes: write '{text(int(size)).replace(' ', '')}'")
    if size < _LEAST_MIB:
        raise ValueError(f"{size:g} has no unit: write '{size:g}GiB' or '{size:g}MiB'")
    if warn:
        _warnings.warn(f"{of}({size}) is read as MiB: write {of}('{size}MiB')")
    return f"{int(size * 1024)}KiB"


def mib(value: Any, name: str) -> float:
    """Returns the value as a number of MiB, the unit that TensorFlow uses.

    Raises:
        ValueError: the value is not a number; the error text names the argument `name`.
    """
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise ValueError(f"{name} is a number of MiB, such as 4096, not {value!r}")
    return float(value)


def shortest(number: float) -> Union[int, float]:
    """Returns a whole number as an int, so that it is printed without a fraction."""
    return int(number) if number.is_integer() else number


def parse(size: str, total: Optional[int] = None) -> int:
    """Returns the bytes of `'2GiB'`, `'512MiB'`, `'8GB'` (10^9) or `'50%'` (of `total`).

    Raises:
        ValueError: the size has no unit or no number, is a share without a `total`, or is not above 0.
    """
    match = _SIZE.fullmatch(size)
    if match is None:
        raise ValueError(f"'{size}' is not a size: write 2GiB, 512MiB or 50%")
    number, unit = float(match[1]), match[2].lower()
    if number > 1e15:
        raise ValueError(f"'{size}' is more than any device has")
    if unit == "%":
        if total is None:
            raise ValueError(f"'{size}' is a share, but there is no device to which the share applies")
        bytes_ = int(number / 100 * total)
    elif len(unit) == 2 and unit.endswith("b"):
        bytes_ = int(number * 1000 ** ("kmgt".index(unit[0]) + 1))
    else:
        bytes_ = int(number * _UNITS[unit[0]])
    if bytes_ <= 0:
        raise ValueError(f"'{size}' is not more than 0")
    return bytes_


def text(size: int) -> str:
    """Returns the size for people: `3.61 GiB`."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
        value /= 1024
    return f"{size} B"
