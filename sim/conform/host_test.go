package conform

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// recordedSum is that of the image which the recorded web server had.
const recordedSum = "1b7af784841125887e688254229e282829e17245d0e47fe7280da9b68a30d9e1"

func sha256Of(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// tinyImage is a qcow2 file whose header says 64 MiB.
func tinyImage() []byte {
	b := make([]byte, 196616)
	copy(b, "QFI\xfb\x00\x00\x00\x03")
	b[28] = 0x04
	return b
}

const (
	rootToken = "PVEAPIToken=root@pam!full=11111111-0000-4000-8000-000000000000"
	k3sToken  = "PVEAPIToken=k3s@pve!full=33333333-0000-4000-8000-000000000000"
)

// recordedHost is the host on which the exchanges were recorded: the one of the
// older recording, or that of the scenarios, which has more memory and cards.
//
// domain is the one that the host was in, memory what it had, in bytes, where it is known.
func recordedHost(scenarios bool, domain string, memory int64) pvesim.Model {
	device := func(address, id, class string, group int, sub string) pvesim.PCIDevice {
		return pvesim.PCIDevice{Address: address, ID: id, Class: class, Group: group, Subsystem: sub, Vendor: "V", Name: "N"}
	}
	secret := func(header string) string { return header[strings.LastIndexByte(header, '=')+1:] }
	h := pvesim.Host{Name: "pve1", CPUs: 2, NUMANodes: 1, Memory: 8 * pvesim.GiB, Bridges: []string{"vmbr0"},
		CIDRs: map[string]string{"vmbr0": "10.99.0.1/24"}, NoPorts: []string{"vmbr0"}, NoCard: true, Domain: domain, Resolvers: []string{},
		PCI: []pvesim.PCIDevice{
			{Address: "0000:00:00.0", ID: "8086:0d57", Class: "060000", Group: -1, Subsystem: "0000:0000", Vendor: "V"},
			device("0000:00:01.0", "1af4:1045", "ffff00", -1, "1af4:1045"), device("0000:00:02.0", "1af4:1042", "018000", -1, "1af4:1042"),
			device("0000:00:03.0", "1af4:1041", "020000", -1, "1af4:1041"), device("0000:00:04.0", "1af4:1053", "ffff00", -1, "1af4:1053"),
			device("0000:00:05.0", "1af4:1044", "ffff00", -1, "1af4:1044"),
			device("0000:01:00.0", "10de:2684", "030000", 13, "1043:88e2"), device("0000:01:00.1", "10de:22ba", "040300", 13, "1043:88e2"),
			device("0000:02:00.0", "10de:20b5", "030200", 14, "10de:1533"), device("0000:03:00.0", "10de:2330", "030200", 15, "10de:16c1"),
			device("0000:41:00.0", "10de:2230", "030000", 30, "10de:1459"), device("0000:41:00.1", "10de:1aef", "040300", 30, "10de:1459"),
			device("0000:41:02.0", "8086:1572", "020000", 30, "8086:0000"),
		},
		Storages: []pvesim.Storage{
			{Name: "local", Type: "dir", Content: []string{"import", "backup", "rootdir", "vztmpl", "images", "iso", "snippets"}, Size: 252 * pvesim.GiB,
				Files: []pvesim.File{{Name: "import/tiny.qcow2", URL: "http://10.99.0.1:8000/img.qcow2"}, {Name: "import/miniguest.qcow2", Size: 18298368}}},
			{Name: "vmdata", Type: "dir", Content: []string{"rootdir", "images"}, Size: 252 * pvesim.GiB},
		}}
	if scenarios {
		h.Memory = pvesim.Size(cmp.Or(memory, 25276514304))
		h.PCI = append(h.PCI, device("0000:81:00.0", "10de:20b5", "030200", 41, "10de:1533"), device("0000:82:00.0", "10de:20b5", "030200", 42, "10de:1533"))
		h.CIDRs = map[string]string{"vmbr0": "10.99.0.1/24"}
		h.Storages[0].Files = []pvesim.File{{Name: "import/tiny.qcow2", URL: "http://10.99.0.1:8001/img.qcow2"}}
	}
	k3s := strings.Fields("VM.GuestAgent.Audit VM.Config.Disk VM.Config.Memory Datastore.Audit VM.Clone VM.Config.CDROM Mapping.Audit VM.Config.CPU " +
		"VM.GuestAgent.Unrestricted VM.Migrate SDN.Use VM.Config.Cloudinit Sys.Audit VM.Config.Options Pool.Audit Datastore.AllocateSpace VM.PowerMgmt " +
		"VM.Audit Pool.Allocate Datastore.AllocateTemplate Mapping.Use VM.Config.HWType VM.Allocate VM.Config.Network")
	return pvesim.Model{
		Version: "9.2.11", QEMU: "10.0.13", Hosts: []pvesim.Host{h}, Roles: []pvesim.Role{{ID: "K3s", Privs: k3s}},
		Users: []pvesim.User{{ID: "root@pam", Password: "password-of-root"}, {ID: "nobody@pve", Password: "password-of-nobody"}, {ID: "k3s@pve", Password: "x"}},
		Tokens: []pvesim.Token{{ID: "root@pam!full", Secret: secret(rootToken)}, {ID: "root@pam!sep", Secret: "22222222-0000-4000-8000-000000000000", PrivSep: true}, {ID: "k3s@pve!full", Secret: secret(k3sToken)},
			{ID: "k3s@pve!sep", Secret: "44444444-0000-4000-8000-000000000000", PrivSep: true}},
		ACLs: []pvesim.ACL{{Path: "/", Who: "k3s@pve", Role: "K3s"}},
	}
}

// recordedTiming is the duration of its work: disks were small, and machines empty.
func recordedTiming() pvesim.Timing {
	return pvesim.Timing{Fork: 20 * time.Millisecond, LinkedClone: 200 * time.Millisecond, LinkedDisk: 100 * time.Millisecond,
		AllocateDisk: 100 * time.Millisecond, Start: 400 * time.Millisecond, Stop: 200 * time.Millisecond, Destroy: 50 * time.Millisecond,
		Configure: 10 * time.Millisecond, Upload: 50 * time.Millisecond}
}

// recordedInternet is the web server beside it. Its redirects lead to /a.iso, or back to the
// start.
func recordedInternet(raw string) ([]byte, error) {
	switch {
	case strings.HasPrefix(raw, "http://10.99.0.1:1/"):
		return nil, guest.ErrRefused
	case strings.HasSuffix(raw, "/loop"):
		return nil, &guest.StatusError{Code: 302, Reason: "Found", Location: "/loop"}
	case strings.HasSuffix(raw, "/redir"):
		return nil, &guest.StatusError{Code: 302, Reason: "Found", Location: "/a.iso"}
	case strings.HasSuffix(raw, "/500"):
		return nil, &guest.StatusError{Code: 500, Reason: "Internal Server Error"}
	case strings.HasSuffix(raw, "/img.qcow2"):
		return tinyImage(), nil
	case strings.HasSuffix(raw, "/a.iso"):
		return make([]byte, 65536), nil
	case strings.HasSuffix(raw, "/text.qcow2"):
		return []byte("not an image\n"), nil
	}
	return nil, &guest.StatusError{Code: 404, Reason: "File not found"}
}
