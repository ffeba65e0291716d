# Lets a server wait in a queue of Kueue's, and says so on the page of its start.
#
# JupyterHub reads start_timeout when start() returns, before kubespawner applies the
# profile (jupyterhub/user.py, kubespawner/spawner.py), so a profile cannot set it.
from kubespawner import KubeSpawner
from z2jh import get_config


class QueueSpawner(KubeSpawner):
    def start(self):
        queue = get_config("custom.homelab.queue")
        if self.user_options.get("profile", queue["default"]) in queue["profiles"]:
            self.start_timeout = queue["timeout"]
        return super().start()

    async def progress(self):
        async for event in super().progress():
            # Kueue's event on the pod; its own words name a Workload.
            if (event.get("raw_event") or {}).get("reason") == "CreatedWorkload":
                name = get_config("custom.homelab.queue.name")
                event["message"] = (
                    "Your server is in the queue %s. While all its GPUs are in use it waits,"
                    " and then starts by itself: you may leave this page." % name
                )
            yield event


c.JupyterHub.spawner_class = QueueSpawner  # noqa: F821
