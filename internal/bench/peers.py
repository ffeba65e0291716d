"""Copies between every two GPUs with PyTorch, in both directions, and says the slower one.

    peers.py GPUS
"""
import sys
import time

import report

BYTES = 256 << 20


def copy(torch, source, target):
    """GB/s of copies from one GPU to another, and how many numbers arrived wrong."""
    count = BYTES // 4
    data = torch.arange(count, dtype=torch.float32, device="cuda:%d" % source)
    arrived = torch.zeros(count, dtype=torch.float32, device="cuda:%d" % target)
    arrived.copy_(data)
    torch.cuda.synchronize(source)
    torch.cuda.synchronize(target)
    begin = time.monotonic()
    for _ in range(10):
        arrived.copy_(data)
    torch.cuda.synchronize(source)
    torch.cuda.synchronize(target)
    speed = 10 * BYTES / max(time.monotonic() - begin, 1e-6) / 1e9
    return speed, int((arrived.cpu() != data.cpu()).sum())


def main():
    expected = int(sys.argv[1])
    found = report.gpus(expected)
    try:
        import torch
    except ImportError as problem:
        report.fail("the image has no PyTorch: %s" % problem)
    pairs = []
    for i in range(expected):
        report.say(**found[i])
        for j in range(i + 1, expected):
            try:
                (there, lost), (back, gone) = copy(torch, i, j), copy(torch, j, i)
                direct = torch.cuda.can_device_access_peer(i, j)
                values = {"speed": min(there, back), "direct": int(direct), "wrong": lost + gone}
                pairs.append((min(there, back), {"gpu": i, "peer": j, "values": values}))
            except RuntimeError as problem:
                pairs.append((0.0, {"gpu": i, "peer": j, "error": report.why(problem)}))
            torch.cuda.empty_cache()
    for _, line in sorted(pairs, key=lambda pair: pair[0]):  # the slowest first: the last may find no room
        report.say(**line)
    report.finish()


if __name__ == "__main__":
    main()
