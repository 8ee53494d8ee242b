"""Who copies bodies in suites ``…-memif-dma``: Intel DSA where the machine has a work queue, else Quiver's software model of one."""

from __future__ import annotations

from pathlib import Path

#: Where work queues are.
QUEUES = Path("/dev/dsa")

#: What must be said of every figure that the model was part of.
MODEL = "bodies copied by a software model of a DMA engine: says nothing about speed"


def engine() -> str:
    """As ``copy.engine`` of quiverd's settings."""
    return "dsa" if any(QUEUES.glob("wq*")) else "dsa-model"


def settings() -> str:
    """The section of quiverd's settings."""
    return f'[copy]\nengine = "{engine()}"\n'


def remarks() -> list[str]:
    """What a reader of a figure must know."""
    return [MODEL] if engine() == "dsa-model" else ["bodies copied by Intel DSA"]
