"""The ratios of attention that the scorecard follows. Standard library only."""

from typing import Any

from harness.catalog import experiments
from harness.catalog.promises import FASTEST, Promise, Quoted
from harness.operators.attention.articles import OWN_CODE_GPU

LONG = "b2-h16-n8192-d128-bf16-full"
RIVALS = ("sdpa_cudnn", "fa3", "fa4")


def _flagship(name: str, ours: str, theirs: str, experiment: str = "hopper_grid", **rest: Any) -> Promise:
    return Promise(name, ours, theirs, experiment, technique="flagship", ladder="hopper", rivals=RIVALS, **rest)


def _decode(name: str, ours: str, theirs: str) -> Promise:
    rivals = ("sdpa_cudnn", "sdpa_flash", "fa3")
    return Promise(name, ours, theirs, "decode", ladder="decode", rivals=rivals)


def _over_article(name: str) -> Promise:
    article = experiments.article(name)
    speeds = {shape.problem.slug: shape.own_code for shape in article.shapes if shape.own_code}
    return Promise(
        f"{name}_over_article", "cuda", "article", name, quoted=Quoted(article.own_code_is, OWN_CODE_GPU, speeds)
    )


def promises() -> tuple[Promise, ...]:
    return (
        Promise("cuda_over_fa2", "cuda", "sdpa_flash", "ladder"),
        Promise("cuda_over_cudnn", "cuda", "sdpa_cudnn", "ladder"),
        Promise("triton_over_cuda", "triton", "cuda", "ladder"),
        Promise("triton_native_over_flex", "triton_native", "flex", "ladder"),
        Promise("mma_sync_cuda_over_fa2", "cuda", "sdpa_flash", "over_fa2"),
        Promise("mma_sync_cuda_over_fa2_seed001", "cuda", "sdpa_flash", "seed_raw_ptx"),
        _flagship("flagship_over_fastest", "cuda", FASTEST),
        _flagship("flagship_over_cudnn", "cuda", "sdpa_cudnn"),
        _flagship("flagship_over_fa3", "cuda", "fa3"),
        _flagship("flagship_over_fa4", "cuda", "fa4"),
        _flagship("flagship_over_fastest_sustained", "cuda", FASTEST, "hopper_sustained", mode="sustained"),
        _flagship("triton_over_flagship", "triton", "cuda"),
        _flagship("triton_over_fastest", "triton", FASTEST),
        _flagship("gluon_over_fastest", "gluon", FASTEST),
        Promise(
            *("flash_attention_over_fastest", "flash_attention", FASTEST, "calls"),
            mode="idle",
            ladder="hopper",
            rivals=("sdpa_cudnn", "fa3"),
        ),
        _decode("decode_over_fastest", "cuda", FASTEST),
        _decode("triton_decode_over_cuda", "triton", "cuda"),
        _flagship("gluon_over_fa4", "gluon", "fa4", problem=LONG),
        *map(_over_article, experiments.about_articles()),
    )
