# SSH into a notebook's server, at /user/NAME/ssh/: jupyter-server-proxy starts OpenSSH when somebody first
# connects, and passes each websocket on to it.
#
# Jupyter Server reads this from JUPYTER_CONFIG_PATH, after the configuration of the image and of the user.
import os
import re
import shutil
import subprocess
import sys
import tempfile

PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/tmp/homelab-ssh/bin"
SSHD = shutil.which("sshd", path=PATH)  # absolute, as sshd wants to be called
KEYGEN = shutil.which("ssh-keygen", path=PATH)
HOST_KEY = os.path.expanduser("~/.ssh/homelab_host_key")  # in the home, so that it stays

AUTHORIZED_KEYS = os.path.expanduser("~/.ssh/authorized_keys")

# What sshd itself gives to a session.
SESSION = {"HOME", "LOGNAME", "MAIL", "OLDPWD", "PWD", "SHELL", "SHLVL", "TERM", "USER", "_"}


def environment(variables):
    """The server's variables for a line of sshd_config, which ends with the line."""
    words = []
    for name, value in sorted(variables.items()):
        known = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) and name not in SESSION and not name.startswith("SSH_")
        if known and value.isprintable():
            words.append('"%s=%s"' % (name, value.replace("\\", "\\\\").replace('"', '\\"')))
    return " ".join(words)


def add_key(key):
    """Keep in the home a key that was given where the profile was chosen."""
    os.makedirs(os.path.dirname(AUTHORIZED_KEYS), 0o700, exist_ok=True)
    with open(AUTHORIZED_KEYS, "a+") as f:  # which appends, wherever it has read
        f.seek(0)
        have = f.read()
        if key not in have.splitlines():
            f.write(("" if not have or have.endswith("\n") else "\n") + key + "\n")


def command(port):
    os.makedirs(os.path.dirname(HOST_KEY), 0o700, exist_ok=True)
    if not os.path.exists(HOST_KEY):
        subprocess.run([KEYGEN, "-q", "-t", "ed25519", "-N", "", "-f", HOST_KEY], check=True)
    os.chmod(HOST_KEY, 0o600)  # Kubernetes gives files of a volume to its fsGroup, and sshd takes no such key
    lines = [
        "ListenAddress 127.0.0.1:%d" % port,
        "HostKey " + HOST_KEY,
        "PidFile none",
        "AuthorizedKeysFile " + AUTHORIZED_KEYS,
        # Homes are writable for a group or for all, by the volume's driver. Nobody else is in the container.
        "StrictModes no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PrintLastLog no",
        "Subsystem sftp internal-sftp",
        "SetEnv " + environment(os.environ),
    ]
    file, path = tempfile.mkstemp(prefix="sshd-")  # for its owner only: the variables have the user's token
    with os.fdopen(file, "w") as f:
        f.write("\n".join(lines) + "\n")
    # jupyter-server-proxy fills in braces.
    return [SSHD, "-D", "-e", "-f", path.replace("{", "{{").replace("}", "}}")]


given = os.environ.get("HOMELAB_SSH_KEY", "").strip()
if given:
    try:
        add_key(given)
    except OSError as e:
        print("homelab: the public key is not in the home: %s" % e, file=sys.stderr)

if SSHD and KEYGEN:
    c.ServerProxy.servers.update(  # noqa: F821
        {"ssh": {"command": command, "raw_socket_proxy": True, "timeout": 60, "launcher_entry": {"enabled": False}}}
    )
