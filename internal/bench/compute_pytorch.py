"""Computes with PyTorch on every GPU, compares with the CPU, and measures for some seconds.

    compute_pytorch.py GPUS
"""
import sys

import report


def main():
    expected = int(sys.argv[1])
    found = report.gpus(expected)
    try:
        import torch

        import product
    except ImportError as problem:
        report.fail("the image has no PyTorch: %s" % problem)
    if torch.cuda.device_count() != expected:
        report.fail("PyTorch sees %d GPUs, expected %d" % (torch.cuda.device_count(), expected))
    for line in found:
        try:
            work = product.Product(line["gpu"], most=4096, share=0.5)
            wrong, speed = work.first_wrong, 0.0
            for _ in range(4):
                speed, more = work.window()
                wrong += more
            del work
            torch.cuda.empty_cache()
            report.say(values={"speed": speed, "memory": product.bandwidth(line["gpu"]), "wrong": wrong}, **line)
        except RuntimeError as problem:
            report.say(error=report.why(problem), **line)
        torch.cuda.empty_cache()
    report.finish()


if __name__ == "__main__":
    main()
