# A hub on this machine for the tests: what z2jh's configuration does with the values
# that matter to hub:verify, with servers that are processes instead of pods.
import asyncio
import json
import os
import re
import sys

from jupyterhub.spawner import SimpleLocalProcessSpawner

c = get_config()  # noqa: F821
with open(os.environ["HUB_TEST"]) as f:
    test = json.load(f)
values, secrets, folder = test["values"], test["secrets"], test["folder"]


class ProfileSpawner(SimpleLocalProcessSpawner):
    """Knows profiles by their slugs, as kubespawner does with options from the API."""

    async def progress(self):
        yield {"progress": 10, "message": "0/7 nodes are available: 7 Insufficient nvidia.com/gpu."}
        if self.user_options.get("profile") == "nowhere":
            await asyncio.sleep(10)
            return
        yield {"progress": 50, "message": "Container image pulled"}

    def choose(self, option, typed):
        """What kubespawner 7.1 does with what people type in an option (spawner.py, _load_profile)."""
        if not typed:
            return
        other = option["unlisted_choice"]
        if not re.match(other["validation_regex"], typed):
            raise ValueError("Received unlisted_choice that failed validation regex.")
        for key, value in other["kubespawner_override"]["environment"].items():
            self.environment[key] = value.replace("{value}", typed)

    async def start(self):
        slug = self.user_options.get("profile")
        profiles = {p["slug"]: p for p in values["singleuser"]["profileList"]}
        known = list(profiles)
        if slug not in known:
            raise ValueError("No such profile: %s. Options include: %s" % (slug, ", ".join(known)))
        for name, option in profiles[slug].get("profile_options", {}).items():
            self.choose(option, self.user_options.get(name + "--unlisted-choice"))
        if slug == "broken":
            await asyncio.sleep(1)
            raise RuntimeError("pod rejected: the node is out of GPUs")
        if slug in ("endless", "nowhere"):
            await asyncio.sleep(10)  # this hub cannot be told to give up a start; since 5 it can
            raise RuntimeError("never ready")
        return await super().start()


c.JupyterHub.spawner_class = ProfileSpawner
c.JupyterHub.bind_url = test["url"]
c.JupyterHub.hub_port = test["hubPort"]
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:%d" % test["proxyPort"]
c.ConfigurableHTTPProxy.pid_file = folder + "/proxy.pid"
c.JupyterHub.db_url = "sqlite:///" + folder + "/hub.sqlite"
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 0}
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.args = ["--allow-root"]
c.Spawner.environment = {"IPYTHONDIR": folder + "/ipython", "JUPYTER_RUNTIME_DIR": folder + "/runtime", "JUPYTER_CONFIG_PATH": folder + "/ssh"}
c.SimpleLocalProcessSpawner.home_dir_template = folder + "/home/{username}"
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120

# What follows is done as in files/hub/jupyterhub_config.py of the chart.
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.update(values["hub"]["config"]["Authenticator"])
c.JupyterHub.cookie_secret = secrets["hub.config.JupyterHub.cookie_secret"]
c.JupyterHub.services = []
c.JupyterHub.load_roles = []
for key, service in values["hub"]["services"].items():
    service.setdefault("name", key)
    service["api_token"] = secrets["hub.services.%s.apiToken" % key]
    if "command" in service:
        cull = json.dumps(values["custom"]["homelab"]["cull"])
        service["command"] = [sys.executable, test["culler"], cull]
    c.JupyterHub.services.append(service)
for key, role in values["hub"]["loadRoles"].items():
    role.setdefault("name", key)
    c.JupyterHub.load_roles.append(role)
# A second service, as a site's own: what we render must not take its place.
c.JupyterHub.services.append({"name": "site", "api_token": test["siteToken"]})
c.JupyterHub.load_roles.append({"name": "site", "services": ["site"], "scopes": ["admin:users", "admin:servers", "access:servers"]})
