# Starts servers with queue.py's spawner, above a stand-in for kubespawner's.
import asyncio
import json
import sys
import types

snippet, values = sys.argv[1], json.loads(sys.argv[2])


def get_config(key, default=None):
    value = values
    for level in key.split("."):
        value = value[level]
    return value


class KubeSpawner:
    start_timeout = values["singleuser"]["startTimeout"]

    def __init__(self, **user_options):
        self.user_options = user_options

    def start(self):
        return self.start_timeout

    async def progress(self):
        yield {"progress": 1, "raw_event": {"reason": "Created"}, "message": "Created container"}
        yield {"progress": 2, "raw_event": {"reason": "CreatedWorkload"}, "message": "Created Workload: a/b"}


sys.modules["z2jh"] = types.SimpleNamespace(get_config=get_config)
sys.modules["kubespawner"] = types.SimpleNamespace(KubeSpawner=KubeSpawner)
c = types.SimpleNamespace(JupyterHub=types.SimpleNamespace())
with open(snippet) as f:
    exec(compile(f.read(), snippet, "exec"), {"c": c})
spawner = c.JupyterHub.spawner_class
for name in "cpu", "gpu":
    print(name, spawner(profile=name).start())
print("none", spawner().start())


async def said():
    async for event in spawner().progress():
        print(event["message"])


asyncio.run(said())
