#!/bin/sh
# Makes new certificates for K3s on this machine: K3s lays the old ones aside and makes others
# when it starts. Pods keep running. May be run again after it was cut short.
#
# usage: rotate.sh UNIT
set -eu

unit=$1
systemctl stop "$unit"
/usr/local/bin/k3s certificate rotate
: >/etc/rancher/k3s/homelab.started
systemctl start --no-block "$unit"
