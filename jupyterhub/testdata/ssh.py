# Runs files/ssh.py as Jupyter Server does, with a stand-in for its configuration, and prints the command that
# jupyter-server-proxy would start. Argument: the file.
import json
import sys
import types

servers = {}
c = types.SimpleNamespace(ServerProxy=types.SimpleNamespace(servers=servers))
with open(sys.argv[1]) as f:
    exec(compile(f.read(), sys.argv[1], "exec"), {"c": c})
ssh = servers.get("ssh")
if ssh:
    command = ssh.pop("command")
    ssh["command"] = [part.format(port=2222) for part in command(2222)]
print(json.dumps(ssh))
