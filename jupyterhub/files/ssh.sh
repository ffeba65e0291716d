#!/bin/sh
# Brings what SSH needs into an image that lacks it. OpenSSH gets a folder of its own, so that
# nothing in the kernels' environment changes. Runs before the server, as its user.
set -e
PATH="$PATH:/usr/sbin:/tmp/homelab-ssh/bin"
command -v sshd >/dev/null ||
    mamba create --yes --quiet --override-channels --channel conda-forge --prefix /tmp/homelab-ssh openssh
python3 -c 'import jupyter_server_proxy.rawsocket' 2>/dev/null ||
    python3 -m pip install --quiet --disable-pip-version-check 'jupyter-server-proxy>=4.4,<5'
