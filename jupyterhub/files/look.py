# Looks around in a notebook's server, and computes on its GPUs with nothing but the
# driver's own library. ASK, JSON, stands before this text. Prints one line.
import ctypes
import glob
import json
import os
import platform
import re

# A sum of two vectors in the assembler that every driver since CUDA 9 translates.
PTX = rb"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .f32 %f<4>;
    .reg .b32 %r<6>;
    .reg .b64 %d<11>;
    ld.param.u64 %d1, [a];
    ld.param.u64 %d2, [b];
    ld.param.u64 %d3, [c];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %d4, %d1;
    cvta.to.global.u64 %d5, %d2;
    cvta.to.global.u64 %d6, %d3;
    mul.wide.u32 %d7, %r5, 4;
    add.s64 %d8, %d4, %d7;
    add.s64 %d9, %d5, %d7;
    add.s64 %d10, %d6, %d7;
    ld.global.f32 %f1, [%d8];
    ld.global.f32 %f2, [%d9];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%d10], %f3;
DONE:
    ret;
}
"""

COUNT = 1 << 16
OUT_OF_MEMORY = 2


class Failed(Exception):
    pass


def driver():
    """The driver's library, each of whose functions raises what it says."""
    try:
        lib = ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        raise Failed("no driver in the container (%s): a runtime class is missing" % e)

    def call(name, *args):
        code = getattr(lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            lib.cuGetErrorString(code, ctypes.byref(text))
            raise Failed("%s: %s (%d)" % (name, (text.value or b"").decode(), code))

    return lib, call


def add(call):
    """Add two vectors on the current device, and check every element."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX))
    call("cuModuleGetFunction", ctypes.byref(function), module, b"add")
    vector = ctypes.c_float * COUNT
    a, b, c = vector(*range(COUNT)), vector(*([0.5] * COUNT)), vector()
    size = ctypes.c_size_t(ctypes.sizeof(vector))
    there = [ctypes.c_uint64() for _ in range(3)]
    for p in there:
        call("cuMemAlloc_v2", ctypes.byref(p), size)
    call("cuMemcpyHtoD_v2", there[0], a, size)
    call("cuMemcpyHtoD_v2", there[1], b, size)
    n = ctypes.c_uint32(COUNT)
    values = [*there, n]
    params = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
    call("cuLaunchKernel", function, COUNT // 256, 1, 1, 256, 1, 1, 0, None, params, None)
    call("cuCtxSynchronize")
    call("cuMemcpyDtoH_v2", c, there[2], size)
    for p in there:
        call("cuMemFree_v2", p)
    wrong = sum(1 for i in range(COUNT) if c[i] != i + 0.5)
    if wrong:
        raise Failed("%d of %d sums are wrong" % (wrong, COUNT))


def gpu(lib, call, index, limit):
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), index)
    name, total = ctypes.create_string_buffer(100), ctypes.c_size_t()
    call("cuDeviceGetName", name, 100, device)
    call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        call("cuCtxSetCurrent", context)
        add(call)
        beyond = False
        if limit:
            p = ctypes.c_uint64()
            code = lib.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(limit + (64 << 20)))
            beyond = code == 0
            if beyond:
                call("cuMemFree_v2", p)
            elif code != OUT_OF_MEMORY:
                raise Failed("taking more memory than allowed: error %d" % code)
    finally:
        call("cuDevicePrimaryCtxRelease_v2", device)
    return {"name": name.value.decode(), "memory": total.value}, beyond


def cuda(saw, limit):
    lib, call = driver()
    call("cuInit", 0)
    version, count = ctypes.c_int(), ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(version))
    saw["driver"] = "%d.%d" % (version.value // 1000, version.value % 1000 // 10)
    call("cuDeviceGetCount", ctypes.byref(count))
    for index in range(count.value):
        one, beyond = gpu(lib, call, index, limit)
        saw["gpus"].append(one)
        saw["beyond"] = saw["beyond"] or beyond


def read(*paths):
    for path in paths:
        try:
            with open(path) as f:
                return f.read().strip()
        except OSError:
            continue
    return ""


def cpus():
    """What the cgroup allows, or what there is."""
    quota = read("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0] != "max":
        return int(quota[0]) / int(quota[1])
    return float(len(os.sched_getaffinity(0)))


def memory():
    text = read("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
    return int(text) if text.isdigit() and int(text) < 1 << 60 else 0


def shm():
    try:
        s = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return s.f_frsize * s.f_blocks


def writable(folder):
    path = os.path.join(folder, ".homelab-verify-%d" % os.getpid())
    try:
        with open(path, "w") as f:
            f.write("written\n")
        os.remove(path)
    except OSError:
        return False
    return True


def look(ask):
    home = os.path.expanduser("~")
    saw = {
        "python": platform.python_version(),
        "cpus": cpus(),
        "memory": memory(),
        "shm": shm(),
        "home": home,
        "writable": writable(home),
        "devices": sorted(d for d in glob.glob("/dev/nvidia*") if re.fullmatch("/dev/nvidia[0-9]+", d)),
        "gpus": [],
        "driver": "",
        "beyond": False,
        "problem": "",
    }
    if ask["gpu"]:
        try:
            cuda(saw, ask["limit"])
        except Failed as e:
            saw["problem"] = str(e)
    return saw


print("homelab-verify: " + json.dumps(look(json.loads(ASK))))  # noqa: F821
