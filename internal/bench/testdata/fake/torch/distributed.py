class ReduceOp:
    MAX = "max"


def init_process_group(kind, init_method, rank, world_size, timeout):
    assert kind == "nccl" and init_method == "tcp://127.0.0.1:29500" and rank < world_size and timeout


def all_reduce(data, op=None):
    pass


def barrier():
    pass


def destroy_process_group():
    pass
