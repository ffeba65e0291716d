"""Loads every GPU for some time with PyTorch, and watches that all results stay right.

    burn.py GPUS SECONDS
"""
import multiprocessing
import queue
import statistics
import subprocess
import sys
import time

import report

# Bits of nvidia-smi's clocks_event_reasons.active for heat and power that hardware or driver
# protect themselves from (nvml.h, nvmlClocksEventReason…): HwSlowdown, SwThermalSlowdown,
# HwThermalSlowdown, HwPowerBrakeSlowdown. That the card's own power limit is reached is normal.
SLOWED = 0x8 | 0x20 | 0x40 | 0x80


def load(gpu, seconds, results):
    """Runs in a process of its own for one GPU."""
    try:
        import product

        work = product.Product(gpu)
        wrong, speeds = work.first_wrong, []
        for _ in range(3):  # the first windows find out how much work a second is
            wrong += work.window()[1]
        ends = time.monotonic() + seconds
        while time.monotonic() < ends or not speeds:
            speed, more = work.window()
            speeds.append(speed)
            wrong += more
        middle = statistics.median(speeds)
        if len(speeds) >= 20:  # a single window may have been disturbed
            speeds = sorted(speeds)[len(speeds) // 20:]
        results.put((gpu, {"speed": middle, "spread": 100 * (max(speeds) - min(speeds)) / middle, "wrong": wrong}, ""))
    except Exception as problem:  # whatever it is, it is this GPU's result
        results.put((gpu, {}, report.why(problem)))


class Watch:
    """What nvidia-smi says of the GPUs meanwhile."""

    def __init__(self, count):
        self.celsius = [0.0] * count
        self.watts = [0.0] * count
        self.slowed = [0] * count
        self.looks = 0
        self.reasons = ["clocks_event_reasons.active", "clocks_throttle_reasons.active"]  # the second before driver 535

    def look(self):
        try:
            rows = report.smi("temperature.gpu,power.draw," + self.reasons[0])
        except (RuntimeError, OSError, subprocess.SubprocessError):
            if len(self.reasons) > 1:
                del self.reasons[0]
                self.look()
            return
        self.looks += 1
        for i, row in enumerate(rows[:len(self.celsius)]):
            celsius, watts, reasons = row[:3]
            self.celsius[i] = max(self.celsius[i], report.number(celsius))
            self.watts[i] = max(self.watts[i], report.number(watts))
            try:
                self.slowed[i] += int(reasons, 16) & SLOWED != 0
            except ValueError:
                pass  # [N/A]


def main():
    expected, seconds = int(sys.argv[1]), float(sys.argv[2])
    found = report.gpus(expected)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=load, args=(line["gpu"], seconds, results), daemon=True) for line in found]
    for worker in workers:
        worker.start()
    watch, done = Watch(expected), {}
    gives_up = time.monotonic() + seconds + 300  # starting takes time
    while len(done) < expected and time.monotonic() < gives_up:
        try:
            gpu, values, problem = results.get(timeout=5)
            done[gpu] = (values, problem)
            continue
        except queue.Empty:
            pass
        watch.look()
        for line, worker in zip(found, workers):
            if not worker.is_alive() and line["gpu"] not in done and results.empty():
                done[line["gpu"]] = ({}, "its process ended with status %s" % worker.exitcode)
    if not watch.looks:
        watch.look()
    for i, line in enumerate(found):
        values, problem = done.get(line["gpu"], ({}, "no result within %d s after the load" % 300))
        if problem:
            report.say(error=problem, **line)
            continue
        more = {"celsius": watch.celsius[i], "watts": watch.watts[i], "slowed": 100 * watch.slowed[i] / max(watch.looks, 1)}
        report.say(values={**values, **more}, **line)
    report.finish()
    for worker in workers:
        worker.kill()


if __name__ == "__main__":
    main()
