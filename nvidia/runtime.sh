#!/bin/sh
# Prints what the GPU operator has brought to this machine, a line each. Reads only.

runtime=/usr/local/nvidia/toolkit/nvidia-container-runtime

if [ -x "$runtime" ]; then echo installed; fi
if grep -q "$runtime" /var/lib/rancher/k3s/agent/etc/containerd/config.toml 2>/dev/null; then echo found; fi

# shellcheck disable=SC2016 # the names in braces are dpkg-query's own
dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'linux-modules-nvidia-*' 'nvidia-dkms-*' 2>/dev/null
exit 0
