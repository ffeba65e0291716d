# Stops idle servers, but for those of exempt users. A profile may have a time of its own.
#
# Runs beside the hub as one of its services, which gives it a token and the address
# of the API. It asks for servers that are ready, and looks at what the hub last saw
# of each: nothing is kept between two looks.
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timezone

PAGE = "application/jupyterhub-pagination+json"


def call(method, path):
    """Ask the hub; path may be one of its own full addresses."""
    url = path if "://" in path else os.environ["JUPYTERHUB_API_URL"] + path
    request = urllib.request.Request(url, method=method)
    request.add_header("Authorization", "token " + os.environ["JUPYTERHUB_API_TOKEN"])
    request.add_header("Accept", PAGE)
    with urllib.request.urlopen(request, timeout=60) as response:
        body = response.read()
    return json.loads(body) if body else None


def ready_users():
    path = "/users?state=ready"
    while path:
        page = call("GET", path)
        if isinstance(page, list):  # before JupyterHub 2
            yield from page
            return
        yield from page["items"]
        following = page["_pagination"]["next"]
        # Only what is asked for: the host in it is that of the outside.
        path = "/users?" + urllib.parse.urlsplit(following["url"]).query if following else None


def age(moment, now):
    """Seconds since a time as the hub writes it; 0 for none."""
    if not moment:
        return 0.0
    then = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    if then.tzinfo is None:
        then = then.replace(tzinfo=timezone.utc)
    return (now - then).total_seconds()


def why(server, timeout, max_age, now):
    """The reason to stop a server, or nothing."""
    if server.get("pending") or not server.get("ready"):
        return None
    idle = age(server.get("last_activity") or server.get("started"), now)
    if timeout and idle >= timeout:
        return "nobody used it for %d s" % idle
    running = age(server.get("started"), now)
    if max_age and running >= max_age:
        return "it has run for %d s" % running
    return None


def look(timeout, max_age, exempt, profiles, default):
    now = datetime.now(timezone.utc)
    for user in ready_users():
        if user["name"] in exempt:
            continue
        for name, server in user["servers"].items():
            profile = (server.get("user_options") or {}).get("profile") or default
            reason = why(server, profiles.get(profile, timeout), max_age, now)
            if not reason:
                continue
            path = "/users/" + urllib.parse.quote(user["name"], safe="")
            path += "/servers/" + urllib.parse.quote(name, safe="") if name else "/server"
            print("stopping %s: %s" % (path, reason), flush=True)
            call("DELETE", path)


def settings():
    """From z2jh's values, or from the argument, as JSON."""
    if len(sys.argv) > 1:
        return json.loads(sys.argv[1])
    from z2jh import get_config

    return get_config("custom.homelab.cull")


def main():
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    s = settings()
    while True:
        try:
            look(s["timeout"], s.get("maxAge", 0), set(s["exempt"]), s.get("profiles", {}), s.get("default"))
        except (OSError, ValueError, KeyError) as problem:
            print("looking at servers: %s" % problem, file=sys.stderr, flush=True)
        time.sleep(s["every"])


if __name__ == "__main__":
    main()
