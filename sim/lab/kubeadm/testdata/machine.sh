#!/bin/sh
# Becomes a machine, in namespaces of its own: systemd in this system's files, of which it changes none, with the
# programs of a node.
#
# usage: machine.sh NAME PROGRAMS IMAGES UNITS FOLDER
set -eu

name=$1
programs=$2
root=$5/$name
new=$root/root

mount --make-rprivate /
mkdir -p "$root"
mount -t tmpfs -o mode=755 machine "$root"
mkdir "$root/upper" "$root/work" "$new"
mount -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" machine "$new"

mount -t proc proc "$new/proc"
mount -t sysfs sysfs "$new/sys"
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
	mount -t cgroup2 cgroup2 "$new/sys/fs/cgroup"
else
	mount -t tmpfs -o mode=755 cgroup "$new/sys/fs/cgroup"
	for group in /sys/fs/cgroup/*; do
		group=${group##*/}
		mkdir "$new/sys/fs/cgroup/$group"
		case $group in
		systemd) mount -t cgroup -o none,name=systemd cgroup "$new/sys/fs/cgroup/$group" ;;
		unified) mount -t cgroup2 cgroup2 "$new/sys/fs/cgroup/$group" ;;
		*) mount -t cgroup -o "$group" cgroup "$new/sys/fs/cgroup/$group" ;;
		esac
	done
fi
mount -t tmpfs -o mode=755 dev "$new/dev"
for device in null zero full random urandom tty kmsg; do
	touch "$new/dev/$device"
	mount --bind "/dev/$device" "$new/dev/$device"
done
mkdir "$new/dev/pts" "$new/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$new/dev/pts"
mount -t tmpfs shm "$new/dev/shm"
ln -s pts/ptmx "$new/dev/ptmx"
ln -s /proc/self/fd "$new/dev/fd"
mount -t tmpfs -o mode=755 run "$new/run"
mount -t tmpfs -o mode=1777 tmp "$new/tmp"
# Layers of images cannot be laid over an overlay.
for folder in containerd containers kubelet etcd; do
	mkdir -p "$root/var/$folder" "$new/var/lib/$folder"
	mount --bind "$root/var/$folder" "$new/var/lib/$folder"
done

mkdir -p "$new/usr/lib/node" "$new/images" "$new/opt/cni" "$new/etc/cni/net.d" "$new/etc/containerd"
mount --bind "$programs" "$new/usr/lib/node"
mount --bind "$3" "$new/images"
rm -rf "$new/opt/cni/bin" "$new/etc/systemd/system"
ln -s /usr/lib/cni "$new/opt/cni/bin"
for program in kubeadm kubelet kubectl crictl; do
	ln -sf ../lib/node/node "$new/usr/bin/$program"
done
for program in containerd containerd-shim-runc-v2 ctr; do
	ln -sf "../lib/node/$program" "$new/usr/bin/$program"
done
if [ ! -f /sys/fs/cgroup/cgroup.controllers ]; then # which kubelet runs on if it is told to, and kubeadm says no to
	echo 'KUBELET_EXTRA_ARGS=--fail-cgroupv1=false' >"$new/etc/default/kubelet"
	rm "$new/usr/bin/kubeadm"
	cat >"$new/usr/bin/kubeadm" <<-'WRAPPER'
		#!/bin/sh
		case "$1 $2 $3" in
		"init phase preflight" | "join phase preflight" | "init --"* | "join --"* | "upgrade apply "* | "upgrade node "*) set -- "$@" --ignore-preflight-errors=SystemVerification ;;
		esac
		exec -a kubeadm /usr/lib/node/node "$@"
	WRAPPER
	sed -i '1s/sh/bash/' "$new/usr/bin/kubeadm"
	chmod +x "$new/usr/bin/kubeadm"
fi
cp -r "$4/." "$new/etc/systemd/system"
for unit in systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service getty.target \
	systemd-logind.service systemd-tmpfiles-setup-dev.service systemd-modules-load.service systemd-sysctl.service systemd-remount-fs.service \
	dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount sys-kernel-config.mount; do
	ln -s /dev/null "$new/etc/systemd/system/$unit"
done
mv "$new/etc/systemd/system/containerd.toml" "$new/etc/containerd/node.toml"
hostname "$name"
echo "$name" >"$new/etc/hostname"
echo '127.0.0.1 localhost' >"$new/etc/hosts"
: >"$new/etc/fstab"
: >"$new/etc/resolv.conf"
rm -f "$new/var/lib/dbus/machine-id"
tr -d - </proc/sys/kernel/random/uuid >"$new/etc/machine-id"

mkdir "$new/.old"
cd "$new"
pivot_root . .old
umount -l /.old
rmdir /.old
exec env -i container=homelab PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=machine.target --log-target=console --log-level=warning --show-status=false
