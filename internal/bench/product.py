"""A product of two matrices whose result is known exactly, with PyTorch.

Their numbers are -1, 0 and 1. So all sums are small whole numbers, which half precision holds
exactly in whatever order a GPU adds them: a single wrong bit shows.
"""
import time

import torch


class Product:
    """Multiplies on one GPU, again and again, in all but a tenth of its free memory."""

    def __init__(self, gpu, most=8192, share=0.9):
        self.device = torch.device("cuda", gpu)
        torch.cuda.set_device(self.device)
        free, _ = torch.cuda.mem_get_info(self.device)
        size = most
        while size > 1024 and 8 * 2 * size * size > free * share:
            size //= 2
        self.size = size
        dice = torch.Generator().manual_seed(20 + gpu)
        a, b = (torch.randint(-1, 2, (size, size), generator=dice, dtype=torch.int8).half() for _ in range(2))
        self.a, self.b = a.to(self.device), b.to(self.device)
        self.want = torch.matmul(self.a, self.b)
        self.first_wrong = self.against_cpu(a, b, dice)
        # Four more: for comparing, and for the library.
        room = int(free * share) // (2 * size * size) - 7
        self.results = [torch.empty_like(self.want) for _ in range(max(1, room))]
        self.at = 0
        self.rounds = 1

    def against_cpu(self, a, b, dice):
        """How many rows of the first result differ from the CPU's, by multiplying with a vector."""
        x = (torch.randint(0, 2, (self.size, 1), generator=dice) * 2 - 1).double()
        right, seen = times(a, times(b, x)), times(self.want.cpu(), x)
        return int((right != seen).sum())

    def window(self, seconds=1.0):
        """Computes for about a second; returns TFLOP/s, and how many numbers are wrong."""
        torch.cuda.synchronize(self.device)
        begin = time.monotonic()
        used = set()
        for _ in range(self.rounds):
            self.at = (self.at + 1) % len(self.results)
            used.add(self.at)
            torch.matmul(self.a, self.b, out=self.results[self.at])
        torch.cuda.synchronize(self.device)
        took = max(time.monotonic() - begin, 1e-6)
        wrong = sum(int((self.results[i] != self.want).sum()) for i in used)
        speed = 2 * self.size**3 * self.rounds / took / 1e12
        self.rounds = max(1, min(100000, int(self.rounds * seconds / took)))
        return speed, wrong


def times(matrix, vector):
    """A product on the CPU in double precision, in parts: a machine may have little memory."""
    return torch.cat([torch.matmul(part.double(), vector) for part in matrix.split(1024)])


def bandwidth(gpu):
    """GB/s at which a GPU reads and writes its own memory."""
    device = torch.device("cuda", gpu)
    torch.cuda.set_device(device)
    free, _ = torch.cuda.mem_get_info(device)
    count = min(1 << 30, int(free * 0.3)) // 4
    source = torch.ones(count, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    torch.cuda.synchronize(device)
    begin = time.monotonic()
    for _ in range(20):
        target.copy_(source)
    torch.cuda.synchronize(device)
    return 2 * 20 * 4 * count / max(time.monotonic() - begin, 1e-6) / 1e9
