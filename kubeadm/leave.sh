#!/bin/sh
# Takes from an agent what it has of a cluster that is no more, so that it can join the restored one. Pods keep running.
set -eu

etc=/etc/kubernetes
mkdir -p "$etc/homelab"
printf 'agent\n' >"$etc/homelab/starting"
systemctl stop kubelet
rm -rf "$etc/kubelet.conf" "$etc/bootstrap-kubelet.conf" "$etc/pki/ca.crt" /var/lib/kubelet/pki
