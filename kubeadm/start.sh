#!/bin/sh
# Makes this machine a member, with a configuration that it reads from its standard input and that may have secrets:
# it is in a file of root's only while kubeadm runs.
#
# A start that was cut short is gone on with: kubeadm uses the certificates and files that it finds, once it is told to
# ignore its checks that there are none. The mark that allows this is made when they have found nothing: a machine where
# somebody else has set something up is refused.
#
# usage: start.sh init|join server|agent
set -eu

verb=$1
role=$2
etc=/etc/kubernetes
ours=$etc/homelab
config=/run/homelab-kubeadm.yaml

# kube_vip LOGIN lets kubelet run kube-vip with a login. kubelet reads all files of its folder but those with a dot.
kube_vip() {
	if [ -f "$ours/kube-vip.yaml" ]; then
		mkdir -p "$etc/manifests"
		sed "s|path: $etc/admin.conf|path: $etc/$1|" "$ours/kube-vip.yaml" >"$etc/manifests/.kube-vip.yaml"
		mv -f "$etc/manifests/.kube-vip.yaml" "$etc/manifests/kube-vip.yaml"
	fi
}

umask 077
cat >"$config"
trap 'rm -f "$config"' EXIT
skip=
if [ ! -f "$ours/starting" ]; then
	kubeadm "$verb" phase preflight --config "$config" >/dev/null
	mkdir -p "$ours"
	printf '%s\n' "$role" >"$ours/starting"
fi

again=DirAvailable--var-lib-etcd,Port-6443,Port-10259,Port-10257,Port-10250,Port-2379,Port-2380
for file in kubelet.conf bootstrap-kubelet.conf pki/ca.crt manifests/kube-apiserver.yaml manifests/kube-controller-manager.yaml \
	manifests/kube-scheduler.yaml manifests/etcd.yaml; do
	again=$again,FileAvailable-$(printf '%s' "$etc/$file" | tr / -)
done
systemctl enable kubelet
# The endpoint is a virtual address from the beginning, and admin.conf may do nothing before kubeadm has given it rights
# by way of super-admin.conf, which releases before v1.36 ask for at the endpoint.
if [ "$verb" = init ]; then
	kube_vip super-admin.conf
fi
# A kubelet with a login of its own has registered, and kubeadm refuses the name of a Node that is Ready
# (cmd/phases/join/kubelet.go): only what comes after is left.
if [ "$verb" = join ] && [ -f "$etc/kubelet.conf" ]; then
	systemctl start kubelet
	skip=kubelet-start
fi
# What it says has a token.
kubeadm "$verb" --config "$config" "--ignore-preflight-errors=$again" ${skip:+"--skip-phases=$skip"} >/dev/null
if [ "$role" = server ]; then # which on one that joins has no API server to ask before
	kube_vip admin.conf
fi
rm -f "$ours/starting"
