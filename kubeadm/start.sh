#!/bin/sh
# Makes this machine a member, with a configuration that it reads from its standard input and that may have a secret:
# it is in a file of root's only while kubeadm runs.
#
# A start that was cut short is gone on with: kubeadm uses the certificates and files that it finds, once it is told to
# ignore its checks that there are none. The mark that allows this is made when they have found nothing: a machine where
# somebody else has set something up is refused.
#
# usage: start.sh init|join
set -eu

verb=$1
etc=/etc/kubernetes
ours=$etc/homelab
config=/run/homelab-kubeadm.yaml

umask 077
cat >"$config"
trap 'rm -f "$config"' EXIT
if [ ! -f "$ours/starting" ]; then
	kubeadm "$verb" phase preflight --config "$config" >/dev/null
	mkdir -p "$ours"
	printf '%s\n' "$verb" >"$ours/starting"
fi

again=DirAvailable--var-lib-etcd,Port-6443,Port-10259,Port-10257,Port-10250,Port-2379,Port-2380
for file in kubelet.conf bootstrap-kubelet.conf pki/ca.crt manifests/kube-apiserver.yaml manifests/kube-controller-manager.yaml \
	manifests/kube-scheduler.yaml manifests/etcd.yaml; do
	again=$again,FileAvailable-$(printf '%s' "$etc/$file" | tr / -)
done
systemctl enable containerd kubelet
# What it says has a token.
kubeadm "$verb" --config "$config" "--ignore-preflight-errors=$again" >/dev/null
rm -f "$ours/starting"
