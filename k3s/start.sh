#!/bin/sh
# Starts a K3s unit, or starts it again, and does not wait for it: a unit of type
# notify whose agent cannot join would keep `systemctl start` for ever.
# The digest of what was started is written down last, so that a start that was
# cut short is seen as not done.
#
# usage: start.sh UNIT start|restart DIGEST
set -eu

unit=$1
verb=$2
digest=$3
etc=/etc/rancher/k3s

systemctl daemon-reload
systemctl enable "$unit"
: >"$etc/homelab.started"
systemctl "$verb" --no-block "$unit"
printf '%s\n' "$digest" >"$etc/homelab.applied"
