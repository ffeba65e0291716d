#!/bin/sh
# Makes a Debian 13 cloud image for a virtual machine whose kernel is booted directly:
# no boot loader, and so neither loop devices nor mounts. Run as root.
#
# usage: image.sh FOLDER
# In FOLDER, which is there, it leaves disk.raw (GPT, one ext4 partition), vmlinuz,
# initrd, and build.log.
set -eu

out=$1
root=$out/root
log=$out/build.log
PATH=$PATH:/usr/sbin:/sbin
export PATH

# The packages are those of a cloud image, and those that our nodes ask for: the
# machine has no internet.
packages=systemd-sysv,udev,dbus,libpam-systemd,cloud-init,cloud-guest-utils,fdisk,e2fsprogs,xfsprogs
packages=$packages,netplan.io,systemd-resolved,iproute2,openssh-server,sudo,qemu-guest-agent,procps,kmod
packages=$packages,linux-image-amd64,initramfs-tools,zstd,nfs-common,open-iscsi,curl,ca-certificates

useless="apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer
systemd-tmpfiles-clean.timer getty@tty1.service serial-getty@ttyS0.service ldconfig.service systemd-journal-catalog-update.service
systemd-binfmt.service proc-sys-fs-binfmt_misc.automount systemd-hwdb-update.service systemd-pstore.service
nfs-blkmap.service rpcbind.service rpcbind.socket dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount
sys-kernel-tracing.mount sys-fs-fuse-connections.mount sys-kernel-config.mount modprobe@drm.service modprobe@configfs.service
modprobe@fuse.service modprobe@efi_pstore.service modprobe@loop.service modprobe@dm_mod.service"

# This machine's own mirror, where it has one of Debian's.
# shellcheck disable=SC2016 # the placeholders are apt's
mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 'Created-By: Packages' 2>/dev/null |
	awk '$2 == "Debian" && $3 == "Debian" && !n++ { print $1 }')
mirror=${mirror:-http://deb.debian.org/debian/}

fail() {
	echo "$1; the end of $log:" >&2
	tail -n 20 "$log" >&2
	exit 1
}

# An initrd with what QEMU has is a third of one with everything, and is unpacked by a
# slow machine.
cat >"$out/before" <<-'HOOK'
	#!/bin/sh
	set -eu
	mkdir -p "$1/etc/initramfs-tools/conf.d"
	echo MODULES=list >"$1/etc/initramfs-tools/conf.d/modules"
	printf '%s\n' virtio_pci virtio_scsi sd_mod ext4 ahci ata_piix sr_mod isofs >"$1/etc/initramfs-tools/modules"
HOOK
chmod +x "$out/before"
mmdebstrap --mode=root --variant=minbase --format=directory --include="$packages" \
	--aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--extract-hook="$out/before \"\$1\"" \
	trixie "$root" "deb $mirror trixie main" "deb $mirror trixie-updates main" >"$log" 2>&1 ||
	fail "mmdebstrap made no system"

# As a cloud image is: nobody's.
rm -f "$root"/etc/ssh/ssh_host_* "$root/var/lib/dbus/machine-id" "$root/etc/resolv.conf" "$root/usr/sbin/policy-rc.d"
rm -f "$root/etc/apt/sources.list" # cloud-init writes one
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*
: >"$root/etc/machine-id"
echo localhost >"$root/etc/hostname"
echo '127.0.0.1 localhost' >"$root/etc/hosts"
ln -s ../run/systemd/resolve/stub-resolv.conf "$root/etc/resolv.conf"
echo 'LABEL=cloudimg-rootfs / ext4 rw,discard,errors=remount-ro 0 0' >"$root/etc/fstab"
echo 'datasource_list: [ NoCloud, None ]' >"$root/etc/cloud/cloud.cfg.d/90_dpkg.cfg"
chroot "$root" systemctl enable systemd-networkd systemd-resolved >>"$log" 2>&1 || fail "no network in the image"
# What a machine that lives for minutes has no use for, and waits long for in emulation.
# shellcheck disable=SC2086 # one word for each unit
chroot "$root" systemctl mask $useless >>"$log" 2>&1 || fail "nothing could be masked"
mkdir -p "$root/etc/systemd/system-generators"
for generator in "$root"/usr/lib/systemd/system-generators/*; do
	case ${generator##*/} in
	cloud-init-generator | netplan | systemd-fstab-generator) ;;
	*) ln -s /dev/null "$root/etc/systemd/system-generators/${generator##*/}" ;;
	esac
done
mv "$root"/boot/vmlinuz-* "$out/vmlinuz"
mv "$root"/boot/initrd.img-* "$out/initrd"

# The disk: a table, and in its only partition the tree.
truncate -s 3G "$out/disk.raw"
printf 'label: gpt\nstart=2048, type=linux, name=root\n' | sfdisk --quiet "$out/disk.raw" >>"$log" 2>&1 || fail "no partition"
sectors=$(sfdisk --json "$out/disk.raw" | sed -n 's/.*"size": *\([0-9]*\).*/\1/p')
mke2fs -q -F -t ext4 -L cloudimg-rootfs -d "$root" -E offset=1048576 "$out/disk.raw" $((sectors / 2))k >>"$log" 2>&1 ||
	fail "no file system"
rm -rf --one-file-system "$root" "$out/before"
