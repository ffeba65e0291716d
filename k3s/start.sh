#!/bin/sh
# Starts a K3s unit, or starts it again, and does not wait for it: a unit of type
# notify whose agent cannot join would block `systemctl start` forever.
# The digest of what was started is written down last, so that a start that was
# cut short is seen as not done.
#
# An agent that has a new token joins "again": the certificate that it may have from an
# earlier join would come first, and is refused if its Node was deleted. It is stopped before: one
# that asks again and again to be let in would get another between the removal and the restart.
#
# usage: start.sh UNIT start|restart DIGEST [again]
#        (an empty digest keeps what was written down)
set -eu

unit=$1
verb=$2
digest=$3
etc=/etc/rancher/k3s

if [ "${4-}" = again ]; then
	if [ "$verb" = restart ]; then
		systemctl stop "$unit"
	fi
	rm -f /var/lib/rancher/k3s/agent/client-kubelet.crt /var/lib/rancher/k3s/agent/client-kubelet.key
fi
systemctl daemon-reload
systemctl enable "$unit"
: >"$etc/homelab.started"
systemctl "$verb" --no-block "$unit"
if [ -n "$digest" ]; then
	printf '%s\n' "$digest" >"$etc/homelab.applied"
fi
