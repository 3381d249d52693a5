"""No spill that its note does not explain, and every explanation in the note of the technique that spills."""

import re
from collections.abc import Sequence

import pytest

from harness.catalog.entries import Technique
from harness.catalog.techniques import TECHNIQUES
from reports.data.dataset import Dataset
from reports.data.names import LABELS
from reports.pages import prose
from reports.pages.prose import ARCH
from reports.pages.technique import Spill, spills

pytestmark = pytest.mark.xdist_group("recorded")


def explanations(note: str) -> list[str]:
    """The items of a note's section on spills, which open with languages and head dimensions."""
    section = note.partition("### Spills\n")[2].partition("\n### ")[0]
    return [" ".join(item.split()) for item in re.split(r"^- ", section, flags=re.MULTILINE)[1:]]


def explained(spill: Spill, note: str) -> bool:
    """Whether an item is about this language and head dimension, and names the architecture and other tiles where the
    spill is there."""
    for item in explanations(note):
        heads = re.findall(
            r"((?:CUDA|Gluon|Triton with wgmma|Triton)(?: and (?:Triton with wgmma|Triton))?), head_dim ([\d, and]+)",
            item,
        )
        about = any(
            LABELS[spill.backend] in languages.split(" and ")
            and spill.cell.partition("-")[0] in {f"d{dim}" for dim in re.findall(r"\d+", dims)}
            for languages, dims in heads
        )
        archs = re.findall(r"sm_\w+", item.partition(":")[0]) or [ARCH]
        here = spill.arch in archs or "every architecture" in item
        if about and here and (spill.reference or "tile" in item):
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda technique: technique.name)
def test_every_recorded_spill_is_explained(technique: Technique, recorded_data: dict[str, Sequence[Dataset]]) -> None:
    path = prose.ROOT / technique.operator / f"{technique.name}.md"
    text = path.read_text() if path.is_file() else ""
    datasets = recorded_data[technique.operator]
    missing = [spill for spill in spills(datasets, technique) if not explained(spill, text)]
    assert not missing, f"say in {path.name}, below `### Spills`, which values spill and where: {missing}"


def test_an_item_explains_what_it_opens_with() -> None:
    def spill(backend: str, head_dim: int, reference: bool = True, arch: str = "sm_90a") -> Spill:
        return Spill(backend, arch, f"d{head_dim}-full", "64x64-s1-w4", reference, 8, 8)

    note = "### Spills\n\n- CUDA, head_dim 64 and 128: two\n  values.\n"
    note += "- Triton and Triton with wgmma, head_dim 128: at other tiles.\n"
    assert explanations(note)[0] == "CUDA, head_dim 64 and 128: two values."
    assert explained(spill("cuda", 64), note)
    assert not explained(spill("cuda", 256), note)
    assert not explained(spill("cuda", 64, reference=False), note)
    assert explained(spill("triton_native", 128, reference=False), note)
    assert not explained(spill("triton", 64), note)
    assert not explained(spill("cuda", 64, arch="sm_80"), note)
    assert explained(spill("cuda", 64, arch="sm_80"), note.replace(" and 128:", ", on sm_80:"))
    assert not explained(spill("cuda", 64), note.replace("### Spills", "### Explanation"))
