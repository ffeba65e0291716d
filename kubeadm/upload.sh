#!/bin/sh
# Keeps what a further server needs in the cluster, encrypted with a key from the configuration on the standard input,
# which is in a file of root's only while kubeadm runs. kubeadm says the key unless it is told not to.
set -eu

config=/run/homelab-kubeadm-certs.yaml
umask 077
cat >"$config"
trap 'rm -f "$config"' EXIT
kubeadm init phase upload-certs --upload-certs --skip-certificate-key-print --config "$config" >/dev/null
