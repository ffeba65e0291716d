#!/bin/sh
# Makes new certificates for K3s on this machine. A server lays the old ones aside and makes others
# when it starts. An agent gets others from a server at each start, and must keep the one by which
# that knows it: its join token was revoked. Pods keep running. May be run again after it was cut
# short.
#
# usage: rotate.sh UNIT
set -eu

unit=$1
systemctl stop "$unit"
if [ "$unit" = k3s ]; then
	/usr/local/bin/k3s certificate rotate
fi
: >/etc/rancher/k3s/homelab.started
systemctl start --no-block "$unit"
