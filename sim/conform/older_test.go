package conform

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// catchUp does what was done between the recorded exchanges.
func (r *replay) catchUp(ctx context.Context, n int) error {
	for _, u := range recordedUploads() {
		if n == u.before {
			upid, err := r.upload(ctx, u)
			if err != nil {
				return err
			}
			r.names[u.upid] = upid
		}
	}
	const locks = "/var/lock/qemu-server/lock-"
	switch n {
	case 272: // a process of the tester's held locks
		r.release = r.sim.Hold(locks + "400.conf")
	case 273, 282:
		r.release()
		r.release = r.sim.Hold(locks + "900.conf")
	case 279:
		r.release = r.sim.Hold("pve1/var/lock/pve-manager/pve-storage-vmdata")
	case 285:
		r.release()
		r.release = r.sim.Hold("file-user_cfg")
	case 276, 286:
		r.release()
	case 289: // the daemon had been stopped
		r.sim.Fail(pvesim.Rule{Method: http.MethodPut, Path: "/nodes/pve1/qemu/400/config", Delay: 31 * time.Second})
	case 310:
		r.sim.AddMapping("pool", "", "node=pve1,path=0000:02:00.0,id=10de:20b5,iommugroup=14,subsystem-id=10de:1533",
			"node=pve1,path=0000:03:00.0,id=10de:2330,iommugroup=15,subsystem-id=10de:16c1")
	}
	return nil
}

// upload sends a file the way that pveproxy wants it, and returns the task.
func (r *replay) upload(ctx context.Context, u recordedUpload) (string, error) {
	file := &sentFile{Fields: [][2]string{{"content", u.content}}, Filename: &u.name, Data: u.data}
	if u.sum != "" {
		file.Fields = append(file.Fields, [2]string{"checksum-algorithm", "sha256"}, [2]string{"checksum", u.sum})
	}
	req, err := r.request(ctx, exchange{Method: http.MethodPost, Path: "/nodes/pve1/storage/local/upload", Auth: u.auth, Upload: file})
	if err != nil {
		return "", err
	}
	got, err := r.send(req)
	if err == nil && got.Status != http.StatusOK {
		err = fmt.Errorf("upload of %s: %d %s", u.name, got.Status, got.Reason)
	}
	r.sim.Settle()
	upid, _ := parseJSON(got.Body).(map[string]any)["data"].(string)
	return upid, err
}

// recordedUpload is an upload whose request was not recorded, but its task was: in
// the exchange before which it happened.
type recordedUpload struct {
	before                               int
	upid, auth, content, name, sum, data string
}

func recordedUploads() []recordedUpload {
	upid := func(pid, pstart, start, who string) string {
		return "UPID:pve1:" + pid + ":" + pstart + ":" + start + ":imgcopy::" + who + ":"
	}
	const root, k3s = "root@pam!full", "k3s@pve!full"
	return []recordedUpload{
		{124, upid("00000345", "00053B02", "6B007E3D", root), rootToken, "iso", "seed 1.iso", "", "65536 zeros"},
		{126, upid("0000034F", "00053B30", "6B007E3D", root), rootToken, "iso", "x.iso", "", "500 zeros"},
		{128, upid("00000359", "00053B40", "6B007E3D", root), rootToken, "iso", "x.img", "", "4096 zeros"},
		{130, upid("00000364", "00053B74", "6B007E3E", root), rootToken, "import", "up.qcow2", "", "tiny.qcow2"},
		{132, upid("00000370", "00053BA7", "6B007E3E", root), rootToken, "import", "up2.raw", "", "text raw"},
		{134, upid("00000379", "00053BD6", "6B007E3F", root), rootToken, "import", "bad.qcow2", "", "text no image"},
		{136, upid("00000382", "00053C0A", "6B007E3F", root), rootToken, "import", "up3.qcow2", "00", "tiny.qcow2"},
		{138, upid("00000387", "00053C1A", "6B007E3F", root), rootToken, "import", "up3.qcow2", strings.ToUpper(sha256Of(tinyImage())), "tiny.qcow2"},
		{140, upid("00000392", "00053C2E", "6B007E40", k3s), k3sToken, "import", "up4.qcow2", "", "tiny.qcow2"},
	}
}
