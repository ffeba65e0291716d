package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seen is what a Debian machine prints, with troubles of several kinds.
const seen = `
@@ now
1700000100.250000000

@@ disks
/dev/sda1         30832548  29904412    928136      97% /
/dev/sdb1       1055761844        28 1002057416       1% /scratch disk
/dev/sda15          126678     11840    114838      10% /boot/efi

@@ inodes
/dev/sda1      1966080  88123 1877957    5% /
/dev/sda15           0      0       0     - /boot/efi

@@ mounts
23 27 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw
27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
31 27 8:1 /usr/lib/os-release /run/host/os-release ro,relatime - ext4 /dev/sda1 rw,errors=remount-ro
40 27 8:17 / /scratch rw,relatime - ext4 /dev/sdb1 ro
41 27 7:0 / /snap/core ro,nodev - squashfs /dev/loop0 ro
42 27 11:0 / /media/cdrom ro,relatime - iso9660 /dev/sr0 ro

@@ failed
● nfs-server.service loaded failed failed NFS server and services
apt-daily.service loaded failed failed Daily apt download activities

@@ clock
no

@@ reboot
linux-image-6.8.0-90-generic

@@ kernel
[   12.345678] I/O error, dev sdb, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2

@@ unresolved
login.example.org

@@ end
`

func TestParse(t *testing.T) {
	asked := time.Unix(1700000000, 0)
	in, err := parse(seen, asked, asked.Add(2*time.Second))
	require.NoError(t, err)
	assert.Equal(t, MachineState{
		Ahead:      98 * time.Second,
		Disks:      []Usage{{"/", 97}, {"/scratch disk", 1}, {"/boot/efi", 10}},
		Inodes:     []Usage{{"/", 5}},
		ReadOnly:   []string{"/scratch"},
		Failed:     []string{"nfs-server.service", "apt-daily.service"},
		Unresolved: []string{"login.example.org"},
		Clock:      "no",
		Reboot:     []string{"linux-image-6.8.0-90-generic"},
		Kernel:     []string{"[   12.345678] I/O error, dev sdb, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2"},
	}, in)
	for when, want := range map[time.Duration]time.Duration{99 * time.Second: 0, 110 * time.Second: -10 * time.Second} {
		in, err = parse(seen, asked.Add(when), asked.Add(when+2*time.Second))
		require.NoError(t, err)
		assert.Equal(t, want, in.Ahead, "what the way may explain does not count")
	}
	_, err = parse(strings.TrimSuffix(seen, "@@ end\n"), asked, asked)
	require.Error(t, err, "a truncated answer does not count")
}

func FuzzParse(f *testing.F) {
	f.Add(seen)
	f.Add("@@ disks\n/dev/sda 1 1 1 -% /\n@@ end\n")
	f.Fuzz(func(t *testing.T, out string) {
		in, err := parse(out, time.Time{}, time.Time{})
		if err != nil {
			return
		}
		for _, u := range append(in.Disks, in.Inodes...) {
			if u.At == "" {
				t.Errorf("a file system without a mount point in %q", out)
			}
		}
	})
}
