package image

// The programs of the base system by package; New puts a file for each into
// /usr/bin, and a container has the first three groups. Programs of other packages
// get their file when the package is installed. What each does
// is found in other rooms (see machine.Software).
var (
	coreutils = []string{
		"[", "awk", "bash", "cat", "chmod", "chown", "cmp", "cp", "cut", "date", "dd",
		"df", "echo", "env", "false", "find", "grep", "head", "hostname",
		"ls", "mkdir", "mktemp", "mv", "printf", "pwd", "readlink", "rm", "rmdir",
		"sed", "sh", "sha256sum", "sleep", "sort", "stat", "sync", "tac", "tail", "tee", "test", "timeout", "tr", "true",
		"truncate", "uname", "wc", "xargs",
	}
	downloads  = []string{"curl"}
	locks      = []string{"flock"}
	baseSystem = []string{
		"apt", "apt-get", "apt-mark", "blkid", "blockdev", "chpasswd", "cloud-init", "dmesg", "dpkg", "dpkg-query", "findmnt",
		"getent", "ip", "ip6tables-restore", "ip6tables-save", "iptables-restore", "iptables-save", "journalctl", "lsblk", "mkfs.ext4", "mkfs.xfs",
		"modprobe", "mount", "netplan", "poweroff", "reboot", "resize2fs", "shutdown", "ssh-keygen", "sudo",
		"sysctl", "systemctl", "timedatectl", "udevadm", "umount", "update-grub", "update-initramfs", "xfs_growfs", "xfs_info",
	}
)
