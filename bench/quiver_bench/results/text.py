"""Documents as text: JSON with a line for each field, and for each trial of many."""

from __future__ import annotations

import json
from typing import Any


def text_of(document: dict[str, Any]) -> str:
    """As it is kept: short enough to look through, and with differences that can be read."""
    return "{\n" + ",\n".join(f" {json.dumps(name)}: {_value(value)}" for name, value in document.items()) + "\n}\n"


def _value(value: Any) -> str:
    if isinstance(value, dict) and value:
        return (
            "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(inner)}" for name, inner in value.items()) + "\n }"
        )
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return "[\n" + ",\n".join(f"  {json.dumps(one)}" for one in value) + "\n ]"
    return json.dumps(value)
