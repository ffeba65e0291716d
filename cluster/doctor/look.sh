#!/bin/sh
# look.sh NAME…
# Prints how a machine is, in sections that begin with a line "@@ NAME", and which
# of these host names it cannot resolve. Reads only; a missing program leaves its
# section empty.

section() { printf '\n@@ %s\n' "$1"; }

section now
date -u +%s.%N

section disks
df -P -k -x tmpfs -x devtmpfs -x overlay -x squashfs 2>/dev/null | tail -n +2

section inodes
df -P -i -x tmpfs -x devtmpfs -x overlay -x squashfs 2>/dev/null | tail -n +2

section mounts
cat /proc/self/mountinfo 2>/dev/null

section failed
systemctl list-units --state=failed --plain --no-legend --no-pager 2>/dev/null

section clock
timedatectl show -p NTPSynchronized --value 2>/dev/null

section reboot
cat /run/reboot-required.pkgs 2>/dev/null | sort -u

section kernel
dmesg 2>/dev/null | grep -E \
	'Out of memory: Killed|I/O error|EXT4-fs error|XFS .*(Corruption|Shutting down)|Remounting filesystem read-only|Unable to change power state|NVRM|Xid' |
	tail -n 40

section unresolved
for name in "$@"; do
	timeout 5 getent ahosts "$name" >/dev/null 2>&1
	case $? in
	2 | 124) echo "$name" ;; # not found, or no answer
	esac
done

section end
