"""Computes with TensorFlow on every GPU, compares with the CPU, and measures for some seconds.

    compute_tensorflow.py GPUS
"""
import sys
import time

import report


def compute(tf, np, gpu):
    """TFLOP/s of a product in half precision, and how many of its numbers differ from the CPU's."""
    size = 4096
    dice = np.random.default_rng(20 + gpu)
    a, b = (dice.integers(-1, 2, (size, size)) for _ in range(2))
    x = dice.integers(0, 2, (size, 1)) * 2 - 1
    with tf.device("/GPU:%d" % gpu):
        left, right = tf.constant(a, dtype=tf.float16), tf.constant(b, dtype=tf.float16)
        result = tf.linalg.matmul(left, right)
        wrong = int((result.numpy().astype("float64") @ x != a.astype("float64") @ (b.astype("float64") @ x)).sum())
        begin, rounds = time.monotonic(), 0
        while time.monotonic() < begin + 2:
            for _ in range(20):
                result = tf.linalg.matmul(left, right)
            result.numpy()  # waits until the GPU has done all
            rounds += 20
    return 2 * size**3 * rounds / (time.monotonic() - begin) / 1e12, wrong


def main():
    expected = int(sys.argv[1])
    found = report.gpus(expected)
    try:
        import numpy as np
        import tensorflow as tf
    except ImportError as problem:
        report.fail("the image has no TensorFlow: %s" % problem)
    seen = tf.config.list_physical_devices("GPU")
    if len(seen) != expected:
        report.fail("TensorFlow sees %d GPUs, expected %d" % (len(seen), expected))
    for device in seen:
        tf.config.experimental.set_memory_growth(device, True)
    for line in found:
        try:
            speed, wrong = compute(tf, np, line["gpu"])
            report.say(values={"speed": speed, "wrong": wrong}, **line)
        except (RuntimeError, tf.errors.OpError) as problem:
            report.say(error=report.why(problem), **line)
    report.finish()


if __name__ == "__main__":
    main()
