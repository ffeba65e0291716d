"""As much of PyTorch as the programs use, with tensors that know their shape and how many of their
numbers are wrong. The time goes by what is done, so that a busy machine changes nothing. FAKE_WRONG is how many the second GPU gets wrong; FAKE_BROKEN is the error that breaks it."""
import os
import time

from . import cuda

now = 1000.0


def passes(seconds):
    global now
    now += seconds
    return now


time.monotonic = lambda: passes(0.0001)

int8, float16, float32 = "int8", "float16", "float32"


class device:
    def __init__(self, kind, index=0):
        kind, _, number = str(kind).partition(":")
        self.index = int(number or index) if kind == "cuda" else -1

    def __eq__(self, other):
        return self.index == other.index


def where(at):
    return at.index if isinstance(at, device) else device(at).index


class Tensor:
    def __init__(self, *shape, on=-1, value=0.0, wrong=0):
        self.shape, self.on, self.value, self.wrong = shape, on, value, wrong

    def to(self, at):
        return Tensor(*self.shape, on=where(at), value=self.value, wrong=self.wrong)

    def cpu(self):
        return self.to("cpu")

    def half(self):
        return self

    double = half

    def split(self, rows):
        assert self.on == -1
        return [Tensor(rows, *self.shape[1:]) for _ in range(self.shape[0] // rows)]

    def sum(self):
        return Tensor(on=self.on, value=self.wrong)

    def __ne__(self, other):
        assert not isinstance(other, Tensor) or self.on == other.on, "tensors of two devices"
        return Tensor(*self.shape, on=self.on, wrong=self.wrong + getattr(other, "wrong", 0))

    def __mul__(self, n):
        return self

    __sub__ = __mul__

    def __int__(self):
        return int(self.value)

    def __float__(self):
        return float(self.value)

    def copy_(self, other):
        self.wrong = other.wrong
        passes(0.001)

    def zero_(self):
        pass


class Generator:
    def manual_seed(self, seed):
        return self


def cat(parts):
    return Tensor(sum(part.shape[0] for part in parts), *parts[0].shape[1:])


def randint(low, high, shape, generator=None, dtype=None):
    assert low < high and isinstance(generator, Generator)
    return Tensor(*shape)


def matmul(a, b, out=None):
    assert a.on == b.on and a.shape[1] == b.shape[0]
    if a.on == 1 and os.environ.get("FAKE_BROKEN"):
        raise RuntimeError(os.environ["FAKE_BROKEN"])
    result = Tensor(a.shape[0], b.shape[1], on=a.on)
    if out is None:
        return result
    assert out.shape == result.shape
    out.wrong = int(os.environ.get("FAKE_WRONG", "0")) if a.on == 1 else 0
    passes(0.002)
    return out


def empty_like(t):
    return Tensor(*t.shape, on=t.on)


def ones(count, device=None):
    return Tensor(count, on=where(device))


def arange(count, dtype=None, device=None):
    return Tensor(count, on=where(device))


zeros = arange


def full(shape, value, device=None):
    return Tensor(*shape, on=where(device), value=value)


def tensor(values, device=None):
    return Tensor(1, on=where(device), value=values[0])
