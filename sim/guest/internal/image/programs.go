package image

// The programs of the base system by package; New puts a file for each into
// /usr/bin, and a container has the first two groups. Programs of other packages
// get their file when the package is installed. What each does
// is found in other rooms (see machine.Software).
var (
	coreutils = []string{
		"[", "awk", "basename", "bash", "cat", "chgrp", "chmod", "chown", "cmp", "cp", "cut", "date", "dd",
		"df", "dirname", "du", "echo", "env", "expr", "false", "find", "grep", "egrep", "gzip", "head", "hostname", "id",
		"ln", "ls", "md5sum", "mkdir", "mktemp", "mv", "nproc", "printenv", "printf", "ps", "pwd", "readlink", "realpath", "rm", "rmdir",
		"sed", "sh", "sha256sum", "sleep", "sort", "stat", "sync", "tac", "tail", "tee", "test", "timeout", "touch", "tr", "true",
		"truncate", "uname", "wc", "which", "whoami", "xargs",
	}
	downloads  = []string{"curl", "wget"}
	baseSystem = []string{
		"apt", "apt-get", "apt-mark", "blkid", "blockdev", "chpasswd", "cloud-init", "deb-systemd-invoke", "dmesg", "dpkg", "dpkg-query", "findmnt", "flock", "free",
		"getent", "hostnamectl", "ip", "ip6tables-restore", "ip6tables-save", "iptables-restore", "iptables-save", "journalctl", "ldconfig", "loginctl", "lsblk", "lsmod", "lspci", "mkfs.ext4", "mkfs.xfs",
		"modprobe", "mount", "netplan", "passwd", "pgrep", "poweroff", "reboot", "resize2fs", "shutdown", "ssh-keygen", "sudo", "swapoff",
		"sysctl", "systemctl", "systemd-detect-virt", "timedatectl", "udevadm", "umount", "update-grub", "update-initramfs", "uptime", "xfs_growfs", "xfs_info",
	}
)
