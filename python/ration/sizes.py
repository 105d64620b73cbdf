"""Sizes as people write and read them."""
from __future__ import annotations

import re
from typing import Optional, Union

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse(size: Union[int, str], total: Optional[int] = None) -> int:
    """Bytes of `'2GiB'`, `'512MiB'`, `'8GB'` (10^9) or `'50%'` (of `total`); an int is bytes already.

    Raises:
        ValueError: no unit, no number, a share of nothing, or not above 0.
    """
    if isinstance(size, int) and not isinstance(size, bool):
        bytes_ = size
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?b?|%)\s*", str(size), re.IGNORECASE)
        if match is None:
            raise ValueError(f"'{size}' is no size: write 2GiB, 512MiB or 50%")
        number, unit = float(match[1]), match[2].lower()
        if number > 1e15:
            raise ValueError(f"'{size}' is more than any device has")
        if unit == "%":
            if total is None:
                raise ValueError(f"'{size}' is a share, but there is no device to take it of")
            bytes_ = int(number / 100 * total)
        elif len(unit) == 2 and unit.endswith("b"):
            bytes_ = int(number * 1000 ** ("kmgt".index(unit[0]) + 1))
        else:
            bytes_ = int(number * _UNITS[unit[0]])
    if bytes_ <= 0:
        raise ValueError(f"'{size}' is not more than 0")
    return bytes_


def text(size: int) -> str:
    """`3.61 GiB`."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
        value /= 1024
    return f"{size} B"
