"""Sums over all GPUs of one node or several with NCCL, as training does, with PyTorch.

    allreduce.py GPUS FIRST WORLD MASTER

FIRST is the number of this node's first GPU among all WORLD ones; MASTER is where number 0 is.
"""
import datetime
import os
import socket
import sys
import time

import report

PORT = 29500
PATIENCE = 900  # seconds, for the other nodes' images


def work(local, first, world, master, path):
    """Runs in a process of its own for one GPU. Number 0 writes speed and wrong numbers to path."""
    import torch
    import torch.distributed as dist

    rank = first + local
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", init_method="tcp://%s:%d" % (master, PORT), rank=rank, world_size=world,
                            timeout=datetime.timedelta(seconds=PATIENCE))
    count = 16 << 20
    data = torch.full((count,), float(rank + 1), device=device)
    dist.all_reduce(data)
    wrong = (data != world * (world + 1) / 2).sum().double()
    dist.all_reduce(wrong)

    def timed(rounds):
        dist.barrier()
        torch.cuda.synchronize(device)
        begin = time.monotonic()
        for _ in range(rounds):
            dist.all_reduce(data)
        torch.cuda.synchronize(device)
        return max((time.monotonic() - begin) / rounds, 1e-6)

    data.zero_()
    took = torch.tensor([timed(2)], device=device)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)  # all of them must do as many rounds
    took = timed(max(2, min(200, int(10 / float(took)))))
    if rank == 0:
        # What goes over each GPU's link, as nccl-tests reckons the bus bandwidth.
        speed = 2 * (world - 1) / world * 4 * count / took / 1e9
        with open(path, "w", encoding="utf-8") as result:
            result.write("%r %d" % (speed, int(float(wrong))))
    dist.destroy_process_group()


def known(master):
    """Waits until the name of number 0's node is known: its pod may start later than this one."""
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            socket.getaddrinfo(master, PORT)
            return
        except OSError as problem:
            if time.monotonic() > ends:
                report.fail("%s: %s" % (master, problem))
            time.sleep(2)


def main():
    expected, first, world, master = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    found = report.gpus(expected)
    try:
        import torch.multiprocessing as processes
    except ImportError as problem:
        report.fail("the image has no PyTorch: %s" % problem)
    known(master)
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "allreduce-result")
    try:
        processes.spawn(work, args=(first, world, master, path), nprocs=expected)
        if first == 0:
            with open(path, encoding="utf-8") as result:
                speed, wrong = result.read().split()
            report.say(values={"speed": float(speed), "wrong": int(wrong)})
    except Exception as problem:  # NCCL's own words are at the end
        report.fail(str(problem).strip()[-300:])
    for line in found:
        report.say(**line)
    report.finish()


if __name__ == "__main__":
    main()
