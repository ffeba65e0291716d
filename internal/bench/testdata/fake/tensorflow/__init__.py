"""As much of TensorFlow as the program uses."""
import contextlib
import time
from types import SimpleNamespace as Names

import numpy

now = 1000.0


def passes(seconds):
    global now
    now += seconds
    return now


time.monotonic = lambda: passes(0.0001)

float16 = "float16"
errors = Names(OpError=ZeroDivisionError)


class config:
    experimental = Names(set_memory_growth=lambda device, on: None)

    @staticmethod
    def list_physical_devices(kind):
        assert kind == "GPU"
        return ["/physical_device:GPU:0", "/physical_device:GPU:1"]


@contextlib.contextmanager
def device(name):
    assert name in ("/GPU:0", "/GPU:1")
    yield


def constant(values, dtype=None):
    return values


def multiply(a, b):
    passes(0.01)
    return Names(numpy=lambda: numpy.Array())


linalg = Names(matmul=multiply)
