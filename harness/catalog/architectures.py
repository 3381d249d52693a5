"""What the project compiles for, and which of it a GPU runs. Standard library only."""

CAPABILITY = {"sm_80": (8, 0), "sm_90a": (9, 0), "sm_120a": (12, 0)}


def of_capability(major: int) -> str | None:
    """The architecture for GPUs of this major compute capability: sm_80 code runs on 8.x, the others on their own. None
    where the project compiles for none."""
    return next((arch for arch, known in CAPABILITY.items() if known[0] == major), None)
