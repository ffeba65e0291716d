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
# machine has no internet. Without libpam-systemd a login starts no systemd of its own.
packages=systemd-sysv,udev,dbus,cloud-init,cloud-guest-utils,fdisk,e2fsprogs,xfsprogs
packages=$packages,netplan.io,systemd-resolved,iproute2,openssh-server,sudo,qemu-guest-agent,procps,kmod
packages=$packages,linux-image-amd64,nfs-common,open-iscsi,curl,ca-certificates
packages=$packages,busybox-static,cpio,xz-utils # for the initrd

useless="apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer
systemd-tmpfiles-clean.timer getty@tty1.service serial-getty@ttyS0.service ldconfig.service systemd-journal-catalog-update.service
systemd-binfmt.service proc-sys-fs-binfmt_misc.automount systemd-hwdb-update.service systemd-pstore.service
nfs-blkmap.service rpc-statd-notify.service rpcbind.service rpcbind.socket dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount
sys-kernel-tracing.mount sys-fs-fuse-connections.mount sys-kernel-config.mount modprobe@drm.service modprobe@configfs.service
modprobe@fuse.service modprobe@efi_pstore.service modprobe@loop.service modprobe@dm_mod.service
kmod-static-nodes.service systemd-network-generator.service systemd-udev-load-credentials.service systemd-random-seed.service
systemd-tmpfiles-setup-dev-early.service systemd-journal-flush.service systemd-networkd-persistent-storage.service
xfs_scrub_all.timer cloud-init-hotplugd.socket remote-fs.target nfs-client.target"

# This machine's own mirror, where it has one of Debian's.
# shellcheck disable=SC2016 # the placeholders are apt's
mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 'Created-By: Packages' 2>/dev/null |
	awk '$2 == "Debian" && $3 == "Debian" && !n++ { print $1 }')
debian=debian.org
mirror=${mirror:-http://deb.$debian/debian/}

fail() {
	echo "$1; the end of $log:" >&2
	tail -n 20 "$log" >&2
	exit 1
}

mmdebstrap --mode=root --variant=minbase --format=directory --include="$packages" \
	--aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-exclude=/etc/kernel/postinst.d/*' \
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
# What has just been installed needs no first boot's tidying.
touch "$root/etc/.updated" "$root/var/.updated"

# cloud-init: the modules that our documents are for. Without jsonschema it does not
# compare them with its schema, which takes seconds and which our tests do by themselves.
cat >"$root/etc/cloud/cloud.cfg.d/95_short.cfg" <<-'CONFIG'
	cloud_init_modules: [write_files, growpart, resizefs, set_hostname, update_hostname, update_etc_hosts, users_groups, ssh]
	cloud_config_modules: [set_passwords, apt_configure, timezone, runcmd]
	cloud_final_modules: [package_update_upgrade_install, write_files_deferred, scripts_user]
CONFIG
rm -rf "$root"/usr/lib/python3/dist-packages/jsonschema "$root"/etc/update-motd.d/*
mkdir -p "$root/etc/systemd/journald.conf.d"
printf '[Journal]\nStorage=volatile\n' >"$root/etc/systemd/journald.conf.d/volatile.conf"

# udev is told of what is there at boot but for terminals, of which there are seventy,
# and parts of the board.
mkdir -p "$root/etc/systemd/system/systemd-udev-trigger.service.d"
cat >"$root/etc/systemd/system/systemd-udev-trigger.service.d/short.conf" <<-'UNIT'
	[Service]
	ExecStart=
	ExecStart=-udevadm trigger --type=all --action=add --subsystem-nomatch=tty --subsystem-nomatch=vc \
		--subsystem-nomatch=memory --subsystem-nomatch=cpuid --subsystem-nomatch=msr --subsystem-nomatch=workqueue \
		--subsystem-nomatch=pnp --subsystem-nomatch=platform --subsystem-nomatch=module --subsystem-nomatch=event_source
UNIT

# The kernel's modules: without drivers of what no such machine has, which udev would
# load for what emulation only seems to have, and unpacked.
version=$(basename "$root"/usr/lib/modules/*)
modules=usr/lib/modules/$version
rm -rf "$root/$modules/kernel/sound"
for group in arch/x86/kvm arch/x86/crypto arch/x86/events net/wireless net/mac80211 net/bluetooth drivers/input/misc drivers/input/mouse \
	drivers/input/joydev.ko.xz drivers/gpu drivers/media drivers/usb drivers/hid drivers/hwmon drivers/i2c drivers/watchdog drivers/mfd \
	drivers/cpufreq drivers/edac drivers/platform drivers/iio drivers/staging drivers/infiniband drivers/bluetooth drivers/comedi \
	drivers/net/wireless drivers/net/ethernet drivers/net/can drivers/net/usb drivers/firmware drivers/parport drivers/mtd drivers/mmc; do
	rm -rf "${root:?}/$modules/kernel/$group"
done
chroot "$root" sh -c "find /$modules -name '*.ko.xz' -exec xz -d {} + && depmod $version" >>"$log" 2>&1 || fail "no modules"

# The initrd does what it must and no more: Debian's own takes as long as all else
# before systemd.
initrd=$root/tmp/initrd
mkdir -p "$initrd/bin" "$initrd/dev" "$initrd/proc" "$initrd/root"
cp "$root/bin/busybox" "$initrd/bin/busybox"
chroot "$root" modprobe -S "$version" -a --show-depends virtio_pci virtio_scsi virtio_blk sd_mod ext4 ahci ata_piix sr_mod isofs 2>>"$log" |
	awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$initrd/modules"
chroot "$root" cpio --quiet -pdLm tmp/initrd <"$initrd/modules" 2>>"$log" || fail "a module is not there"
cat >"$initrd/init" <<-'INIT'
	#!/bin/busybox sh
	/bin/busybox --install -s /bin
	export PATH=/bin
	mount -t devtmpfs dev /dev
	mount -t proc proc /proc
	while read -r module; do insmod "$module"; done </modules
	tries=600 # tenths of a second: disks are looked for beside this
	until device=$(findfs LABEL=cloudimg-rootfs 2>/dev/null) || [ $((tries -= 1)) -eq 0 ]; do sleep 0.1; done
	mount -t ext4 -o ro "$device" /root
	umount /proc
	mount -o move /dev /root/dev
	exec switch_root /root /sbin/init
INIT
chmod +x "$initrd/init"
chroot "$root" sh -c 'cd /tmp/initrd && find . | cpio --quiet -o -H newc' >"$out/initrd" || fail "no initrd"
rm -rf "$initrd"
mv "$root"/boot/vmlinuz-* "$out/vmlinuz"

# The disk: a table, and in its only partition the tree.
truncate -s 3G "$out/disk.raw"
printf 'label: gpt\nstart=2048, type=linux, name=root\n' | sfdisk --quiet "$out/disk.raw" >>"$log" 2>&1 || fail "no partition"
sectors=$(sfdisk --json "$out/disk.raw" | sed -n 's/.*"size": *\([0-9]*\).*/\1/p')
mke2fs -q -F -t ext4 -L cloudimg-rootfs -d "$root" -E offset=1048576 "$out/disk.raw" $((sectors / 2))k >>"$log" 2>&1 ||
	fail "no file system"
rm -rf --one-file-system "$root"
