#!/bin/sh
# Prints all that there is to know about Kubernetes on this machine, in one go, as sections that begin with a line
# "@@ NAME". It changes nothing, and prints no secret.
#
# usage: observe.sh
set -u

etc=/etc/kubernetes
ours=$etc/homelab

section() { printf '\n@@ %s\n' "$1"; }
print() {
	if [ -f "$1" ]; then cat "$1"; fi
}

section arch
uname -m

runtime=
for program in containerd crio; do
	if [ -x /usr/bin/$program ]; then runtime=$program; fi
done

section version
if [ -x /usr/bin/kubelet ] && [ -x /usr/bin/kubeadm ] && [ -n "$runtime" ]; then
	kubelet --version 2>/dev/null
fi

section runtime
echo "$runtime"

section held
apt-mark showhold 2>/dev/null

section active
systemctl is-active kubelet 2>/dev/null

section journal
if [ "$(systemctl is-active kubelet 2>/dev/null)" != active ]; then
	journalctl -u kubelet -r -n 20 -o cat --no-pager 2>/dev/null | tac
fi

section starting
print "$ours/starting"

section restoring
print "$ours/restoring"

section upgrading
print "$ours/upgrading"

section cluster
print "$ours/cluster"

section node
print "$ours/node.yaml"

section agreed
print "$ours/agreed.yaml"

section kube-vip
print "$etc/manifests/kube-vip.yaml"

# A machine has its own login once it is a member.
section joined
if [ -f "$etc/kubelet.conf" ]; then
	sed -n 's/^ *server: *//p' "$etc/kubelet.conf"
fi

section server
if [ -f "$etc/manifests/kube-apiserver.yaml" ]; then echo yes; fi

section authority
if [ -f "$etc/pki/ca.crt" ]; then sha256sum "$etc/pki/ca.crt"; fi

section end
