package guest

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/sim/guest/internal/archive"
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// TestPrograms runs command lines as root in a guest that was set up by cloud-init.
// commandLines are command lines, as root, with what becomes of them. They build on each
// other.
var commandLines = []struct {
	command string
	code    int
	out     string
}{
	{"true", 0, ""},
	{"false", 1, ""},
	{"nosuch", 127, "bash: line 1: nosuch: command not found\n"},
	{"sh -c nosuch", 127, "sh: 1: nosuch: not found\n"},
	{"/etc/passwd", 126, "bash: line 1: /etc/passwd: Permission denied\n"},
	{"/no/such", 127, "bash: line 1: /no/such: No such file or directory\n"},
	{"echo 'a  b' \"$HOME\" ${USER:-x}", 0, "a  b /root root\n"},
	{"cd /etc && pwd && cat hostname", 0, "/etc\nwk-gpu1\n"},
	{"(cd /etc; pwd); pwd", 0, "/etc\n/root\n"},
	{"cd /nowhere; echo $?", 0, "bash: line 1: cd: /nowhere: No such file or directory\n1\n"},
	{"mkdir -p /t/a/b && cd /t/a && echo > b/f && ls b && cd .. && ls -1 a", 0, "f\nb\n"},
	{"cd /etc; [ -f hostname ] && test ! -d hostname && echo yes", 0, "yes\n"},
	{"test -e /nope; echo $?; test 3 -lt 20 -a x = x && echo ok", 0, "1\nok\n"},
	{"cat /nope", 1, "cat: /nope: No such file or directory\n"},
	{"printf 'b\\na\\nb\\n' > /tmp/x; sort -u /tmp/x; wc -l < /tmp/x", 0, "a\nb\n3\n"},
	{"printf 'one two\\nthree four\\n' | awk '$1 == \"three\" {print $2}'", 0, "four\n"},
	{"awk 'BEGIN{}' /etc/passwd", 2, "awk: program [\"BEGIN{}\" \"/etc/passwd\"] is not simulated\n"},
	{"printf 'k=v\\n#c\\n' | sed -n 's/^k=\\(.*\\)$/\\1!/p'", 0, "v!\n"},
	{"printf 'a\\nb\\n' > /tmp/s; sed -i s/a/z/ /tmp/s; cat /tmp/s; sed 2q /tmp/s", 1, "z\nb\nsed: -e expression #1, char 0: command '2q' is not simulated\n"},
	{"grep -c root /etc/passwd; grep -q nobody /etc/passwd && echo has; grep nope /etc/passwd; echo $?", 0, "1\nhas\n1\n"},
	{"grep -Eo '[a-z]+:x:0' /etc/passwd; grep -i ROOT: /etc/shadow | cut -d: -f1", 0, "root:x:0\nroot\n"},
	{"echo AbC | tr A-Z a-z; echo a,b,c | cut -d, -f2-; echo hello | tr -d l", 0, "abc\nb,c\nheo\n"},
	{"echo hi | tee /tmp/t1 >/dev/null; sha256sum /tmp/t1 | cut -c1-9", 0, "98ea6e4f2\n"},
	{"cp -r /etc/ssh /tmp/ssh; cp /etc/hostname /tmp/name && cat /tmp/name", 0, "cp: folders are not simulated\nwk-gpu1\n"},
	{"mkdir -p /tmp/d/e; echo x >/tmp/d/e/f; find /tmp/d ! -type d; rm -rf /tmp/d; ls /tmp/d", 2, "/tmp/d/e/f\nls: cannot access '/tmp/d': No such file or directory\n"},
	{"chmod 4755 /tmp/name; stat -c %a /tmp/name; chmod u+x /tmp/name", 1, "4755\nchmod: cannot access '/tmp/name': mode 'u+x' is not simulated\n"},
	{"printf '1 2\\n3\\n' | xargs", 0, "1 2 3\n"},
	{"f=$(mktemp /tmp/foo.XXXXXX) && case $f in /tmp/foo.??????) echo ok;; esac; stat -c %a \"$f\"", 0, "ok\n600\n"},
	{"umask 077; echo x > /tmp/u; stat -c %a /tmp/u; mkdir /tmp/ud; stat -c %a /tmp/ud", 0, "600\n700\n"},
	{"set -e; false; echo no", 1, ""},
	{"sh -c 'set -o pipefail; echo no'", 2, "sh: 1: set: Illegal option -o pipefail\n"},
	{"set -o pipefail; false | true; echo $?", 0, "1\n"},
	{"x=1; while read -r a b; do x=$b; done </etc/hostname; echo \"$a[$x]\"", 0, "[]\n"},
	{"printf 'a b\\nc d\\n' | while read -r a b; do echo \"$b\"; done", 0, "b\nd\n"},
	{"while read -r l; do echo \"<$l>\"; done <<E\n1\n2\nE", 0, "<1>\n<2>\n"},
	{"sh -c 'echo $0 $1 \"$2\" $#' name 'a' 'b  c'", 0, "name a b  c 2\n"},
	{"f() { echo \"f $1\"; return 3; }; f x; echo $?", 0, "f x\n3\n"},
	{"if grep -q nope /etc/hosts; then :; fi", 0, ""},
	{"i=0; while test $i -lt 2; do i=$((i+1)); done", 0, ""},
	{"i=0; until test $i -ge 2; do i=$((i+1)); done; ls /nope 2>/dev/null || echo $?", 0, "2\n"},
	{"set -e; if ls /nope 2>/dev/null; then :; fi; ! cat /nope 2>/dev/null; echo on; cat /nope; echo off", 1, "on\ncat: /nope: No such file or directory\n"},
	{"x=$(cat /nope 2>/dev/null); echo $?; sh -c 'exit 42'", 42, "1\n"},
	{"trap 'echo bye' EXIT INT; echo hi", 0, "hi\nbye\n"},
	{"for i in 1 2; do echo $((i*2)); done; echo /etc/host*", 0, "2\n4\n/etc/hostname /etc/hosts\n"},
	{"echo 'v=7' > /tmp/env; . /tmp/env; echo $v; A=b env | grep ^A=", 0, "7\nA=b\n"},
	{"command -v cat nosuch; type cat", 0, "/usr/bin/cat\ncat is /usr/bin/cat\n"},
	{"echo out; echo err >&2; ls /nope 2>/dev/null; echo $?", 0, "out\nerr\n2\n"},
	{"echo x >/proc/nope/y", 1, "bash: line 1 /proc/nope/y: No such file or directory\n"},
	{"exec 3>/tmp/x", 2, "bash: bash: not simulated: file descriptor 3\n"},
	{"uname -r; uname -sm; hostname", 0, archive.ImageKernel + "\nLinux x86_64\nwk-gpu1\n"},
	{"getent passwd admin; getent passwd nobodyelse", 2, "admin:x:1000:1000::/home/admin:/bin/bash\n"},
	{"timeout 1 sleep 5; echo $?", 0, "124\n"},
	{"flock -n /tmp flock -w 1 -E 19 /tmp true; echo $?; flock -n /tmp flock -w 1 /tmp true; echo $?; flock -E 19 /tmp false; echo $?", 0, "19\n1\n1\n"},
	{"head -c 3 /etc/hostname; echo; tail -n +2 /etc/group | head -n 1", 0, "wk-\nadm:x:4:admin\n"},
	{"cat /sys/bus/pci/devices/0000:01:00.0/vendor", 0, "0x10de\n"},
	{"ip -br addr", 0, "lo               UP             127.0.0.1/8\neth0             UP             10.0.0.21/24\n"},
	{"lsblk -dno NAME,SERIAL,SIZE", 0, "sda os 32G\nsdb scratch 100G\n"},
	{"mkfs.ext4 -L data /dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_scratch && mount LABEL=data /mnt && echo x > /mnt/f && umount /mnt && ls /mnt; findmnt -n -o SOURCE /", 0, "/dev/sda\n"},
	{"mount /dev/sdz /mnt", 32, "mount: /mnt: special device /dev/sdz does not exist\n"},
	{"curl -fsSL https://example.com/x", 22, "curl: (22) The requested URL returned error: 404\n"},
	{"curl --proto =https -fsSL http://github.com/x", 1, "curl: (1) Protocol \"http://github.com/x\" disabled\n"},
	{"curl -fsSL -o /tmp/k3s https://github.com/k3s-io/k3s/releases/download/v1.34.2%2Bk3s1/k3s && chmod 755 /tmp/k3s && /tmp/k3s --version | head -1 | cut -d' ' -f1-3", 0, "k3s version v1.34.2+k3s1\n"},
	{"dpkg-query -W -f '${Package} ${Status}\\n' cloud-init nosuch", 1, "cloud-init install ok installed\ndpkg-query: no packages found matching nosuch\n"},
	{"apt-get install -y jq", 100, "Reading package lists...\nBuilding dependency tree...\nReading state information...\nE: Unable to locate package jq\n"},
	{"apt clean", 0, "\nWARNING: apt does not have a stable CLI interface. Use with caution in scripts.\n\n"},
	{"nvidia-smi", 127, "bash: line 1: nvidia-smi: command not found\n"},
	{"modprobe nvidia", 1, "modprobe: FATAL: Module nvidia not found in directory /lib/modules/" + archive.ImageKernel + "\n"},
	{"systemctl is-active ssh nosuch; systemctl is-enabled ssh", 0, "active\ninactive\nenabled\n"},
	{"systemctl start nosuch", 5, "Failed to start nosuch.service: Unit nosuch.service not found.\n"},
	{"systemctl show -p ActiveState,SubState ssh; systemctl show -p LoadState --value nosuch", 0, "ActiveState=active\nSubState=running\nnot-found\n"},
	{"cloud-init status", 0, "status: done\n"},
	{"cat <<< hi; date -d @0 +%% ", 0, "hi\n%\n"},
}

func TestPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, config(t, testUser))
		for _, test := range commandLines {
			code, out := shellAs(m, "root", test.command)
			assert.Equal(t, test.out, out, test.command)
			assert.Equal(t, test.code, code, test.command)
		}
	})
}

func TestPermissionsOfAnOrdinaryUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, config(t, testUser))
		for _, test := range []struct {
			command string
			code    int
			out     string
		}{
			{"pwd", 0, "/home/admin\n"},
			{"cat /etc/shadow", 1, "cat: /etc/shadow: Permission denied\n"},
			{"ls /root", 2, "ls: cannot open directory '/root': Permission denied\n"},
			{"echo x > /etc/x", 1, "bash: line 1 /etc/x: Permission denied\n"},
			{"rm -f /etc/hostname", 1, "rm: cannot remove '/etc/hostname': Permission denied\n"},
			{"echo x > f && stat -c '%U %a' f", 0, "admin 644\n"},
			{"sudo -n -- cat /etc/shadow | grep -c admin", 0, "1\n"},
			{"sudo -n sh -c 'echo secret > /etc/s; chmod 600 /etc/s'; cat /etc/s", 1, "cat: /etc/s: Permission denied\n"},
			{"chown root f", 1, "chown: changing ownership of 'f': Operation not permitted\n"},
			{"systemctl stop ssh", 1, "Failed to stop: Access denied\n"},
		} {
			code, out := shellAs(m, "admin", test.command)
			assert.Equal(t, test.out, out, test.command)
			assert.Equal(t, test.code, code, test.command)
		}
		disk.ViewOf(m.core.Config.Disk).Save("/etc/sudoers.d/90-cloud-init-users", "", 0o440)
		code, out := shellAs(m, "admin", "sudo -n true")
		assert.Equal(t, "sudo: a password is required\n", out)
		assert.Equal(t, 1, code)
	})
}
