"""Kernels as a user may bring them: `attend` as README has it, and what can be wrong with one."""

import ctypes
import signal
import threading
import time

import torch


def attend(q, k, v, *, causal, scale):
    """softmax(scale * q k^T) v in plain PyTorch: (o, lse)."""
    group = q.shape[1] // k.shape[1]
    keys, values = (tensor.float().repeat_interleave(group, 1) for tensor in (k, v))
    scores = scale * q.float() @ keys.transpose(-1, -2)
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(k.shape[2] - q.shape[2])
        scores = scores.masked_fill(~seen, -torch.inf)
    lse = scores.logsumexp(-1)
    weights = (scores - lse[..., None]).exp().nan_to_num(0.0)
    return (weights @ values).to(q.dtype), lse


def output_alone(q, k, v, *, causal, scale):
    return attend(q, k, v, causal=causal, scale=scale)[0]


def into(q, k, v, *, causal, scale, out):
    out.copy_(attend(q, k, v, causal=causal, scale=scale)[0])


def wrong(q, k, v, *, causal, scale):
    o, lse = attend(q, k, v, causal=causal, scale=2 * scale)
    return o, lse


def wrong_lse(q, k, v, *, causal, scale):
    o, lse = attend(q, k, v, causal=causal, scale=scale)
    return o, lse / 2


def kept(q, k, v, *, causal, scale, answers={}):  # noqa: B006
    if "answer" not in answers:
        answers["answer"] = attend(q, k, v, causal=causal, scale=scale)
    return answers["answer"]


def of_another_shape(q, k, v, *, causal, scale):
    return attend(q, k, v, causal=causal, scale=scale)[0].float()


def of_nothing(q, k, v, *, causal, scale):
    return ()


def crashing(q, k, v, *, causal, scale):
    ctypes.string_at(0)


def hanging(q, k, v, *, causal, scale):
    """A signal to the process goes to its other thread, as it may where threads are many."""
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    time.sleep(3600)


def spinning(q, k, v, *, causal, scale):
    while True: pass  # fmt: skip  # noqa: E701


def elsewhere(q, k, v, *, causal, scale):
    return torch.empty_like(q, device="meta")


def lse_elsewhere(q, k, v, *, causal, scale):
    o, lse = attend(q, k, v, causal=causal, scale=scale)
    return o, lse.to("meta")


def deaf(q, k, v, *, causal, scale):
    """No thread hears the signal, as where a driver holds it back."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    time.sleep(7200)


def on_another_stream(q, k, v, *, causal, scale):
    here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
    aside.wait_stream(here)
    with torch.cuda.stream(aside):
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    here.wait_stream(aside)
    return o


def raising(q, k, v, *, causal, scale):
    assert v.shape[2] < 0


def declining(q, k, v, *, causal, scale):
    raise NotImplementedError("head_dim must be prime")


@torch.no_grad()
def decorated(q, k, v, *, causal, scale):
    return attend(q, k, v, causal=causal, scale=scale)


from_an_extension = torch.nn.functional.scaled_dot_product_attention
"""Python sees no parameters of it."""


class Attention: ...


not_a_function = 3
