#!/bin/sh
# Prints how the GPUs of this machine are divided, and what divides them at boot, in
# sections. Reads only.

section() { printf '\n=== %s\n' "$1"; }

section layout
cat /etc/homelab/mig.layout 2>/dev/null

section program
cat /usr/local/sbin/homelab-mig 2>/dev/null

section unit
cat /etc/systemd/system/homelab-mig.service 2>/dev/null

section enabled
systemctl is-enabled homelab-mig 2>/dev/null

section said
if [ -e /etc/systemd/system/homelab-mig.service ]; then
	journalctl -u homelab-mig -b --no-pager -o cat -n 12 2>/dev/null
fi

section gpus
nvidia-smi --query-gpu=index,uuid,mig.mode.current,mig.mode.pending,pci.device_id,name --format=csv,noheader 2>&1

section instances
nvidia-smi -L 2>&1

section end
