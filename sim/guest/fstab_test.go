package guest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A service that writes below a mount point at its start, as pods do.
const writer = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/tee /scratch/here\n[Install]\nWantedBy=multi-user.target\n"

// rebootWith writes a line of fstab for the scratch disk and boots.
func rebootWith(t *testing.T, m *Machine, options string) {
	t.Helper()
	mustShell(t, m, "sed -i /scratch/d /etc/fstab; echo 'LABEL=data /scratch ext4 "+options+" 0 2' >> /etc/fstab; systemctl daemon-reload; reboot")
	time.Sleep(30 * time.Second)
	settle(t, m)
}

func TestMountsAndTheUnitsThatNeedThem(t *testing.T) {
	tests := []struct {
		name, options, unit string
		onDisk              bool
	}{
		{"nofail orders nothing", "defaults,nofail", "", false},
		{"without nofail it is there before anything starts", "defaults", "", true},
		{"the mount says before whom it comes", "defaults,nofail,x-systemd.before=writer.service", "", true},
		{"the mount says who requires it", "defaults,nofail,x-systemd.required-by=writer.service", "", true},
		{"the unit says what it requires", "defaults,nofail", "[Unit]\nRequiresMountsFor=/scratch/deeper\n", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := start(t, config(t, testUser))
				mustShell(t, m, "mkdir /scratch && mkfs.ext4 -L data /dev/sdb")
				put(t, m, "/etc/systemd/system/writer.service", test.unit+writer)
				mustShell(t, m, "systemctl enable writer")
				rebootWith(t, m, test.options)
				code, _ := shellAs(m, "root", "findmnt /scratch && test -e /scratch/here")
				assert.Equal(t, test.onDisk, code == 0)
			})
		})
	}
}

// A unit does not start while a disk that it requires is missing, and says so.
func TestAUnitWhoseDiskIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, testUser)
		m := start(t, cfg)
		mustShell(t, m, "mkdir /scratch && mkfs.ext4 -L data /dev/sdb")
		put(t, m, "/etc/systemd/system/writer.service", writer)
		mustShell(t, m, "systemctl enable writer")
		m.SetDisks(cfg.Disks[:1])
		rebootWith(t, m, "defaults,nofail,x-systemd.device-timeout=5min,x-systemd.required-by=writer.service")
		time.Sleep(6 * time.Minute)
		_, out := shellAs(m, "root", "systemctl is-active writer; ls /scratch; systemctl start writer")
		assert.Equal(t, "inactive\nA dependency job for writer.service failed. See 'journalctl -xe' for details.\n", out)
		assert.Contains(t, mustShell(t, m, "journalctl -u writer -o cat"), "writer.service: Job writer.service/start failed with result 'dependency'.")

		// It comes back, the unit can be started, and goes with the disk.
		m.SetDisks(cfg.Disks)
		mustShell(t, m, "systemctl start writer && findmnt /scratch && test -e /scratch/here")
		m.SetDisks(slices.Clone(cfg.Disks[:1]))
		_, out = shellAs(m, "root", "systemctl is-active writer; findmnt /scratch")
		assert.Equal(t, "inactive\n", out)
	})
}

// What an XFS has written about its size is not what one reads from the disk.
func TestXFSGrowsBehindTheBlockDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, testUser)
		m := start(t, cfg)
		mustShell(t, m, "mkdir /scratch && mkfs.xfs /dev/sdb && mount /dev/sdb /scratch")
		disks := slices.Clone(cfg.Disks)
		disks[1].Size *= 2
		m.SetDisks(disks)
		const read = "blkid -p -o value -s FSLASTBLOCK /dev/sdb"
		before := mustShell(t, m, read)
		mustShell(t, m, "xfs_growfs /scratch")
		assert.Equal(t, before, mustShell(t, m, read))
		assert.Contains(t, mustShell(t, m, "xfs_info /scratch"), "blocks=52428800,")
		assert.Equal(t, "52428800\n", mustShell(t, m, "blockdev --flushbufs /dev/sdb; "+read))
	})
}

func TestLsblkAndBlkid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, config(t, testUser))
		mustShell(t, m, "mkfs.xfs /dev/sdb")
		id := mustShell(t, m, "blkid -p -o value -s UUID /dev/sdb")
		require.Regexp(t, "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n$", id)
		assert.Equal(t, "/dev/sda os\n/dev/sdb scratch\n", mustShell(t, m, "lsblk --nodeps --noheadings --paths --output NAME,SERIAL"))
	})
}
