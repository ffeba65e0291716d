package proxmox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// What a clone is, by where the template is and where the disk is to be.
func TestHowATemplateIsCloned(t *testing.T) {
	storage := func(name, kind string, shared bool) proxmox.Storage {
		return proxmox.Storage{Name: name, Type: kind, Content: []string{"images"}, Shared: shared, Enabled: true, Active: true}
	}
	both := []proxmox.Storage{storage("nas", "nfs", true), storage("san", "lvm", true), storage("lun", "iscsi", true), storage("backups", "pbs", true)}
	one := append([]proxmox.Storage{storage("thin", "lvmthin", false), storage("vg", "lvm", false), storage("tank", "zfspool", false), storage("flash", "btrfs", false)}, both...)
	two := append([]proxmox.Storage{storage("thin", "lvmthin", false)}, both...)
	off := storage("thin", "lvmthin", false)
	off.Enabled = false
	on := func(volumes ...string) proxmox.CloneSource {
		s := proxmox.CloneSource{Name: "tmpl (VM 900 on pve1)", Host: "pve1", Storages: one}
		for i, v := range volumes {
			s.Drives = append(s.Drives, proxmox.Drive{Slot: []string{"scsi0", "efidisk0", "ide2"}[i], Volume: v, Size: proxmox.GiB, Disc: i == 2})
		}
		return s
	}
	for name, x := range map[string]struct {
		from     proxmox.CloneSource
		host     string
		there    []proxmox.Storage
		storage  string
		way      proxmox.CloneMode
		why, cur string
	}{
		"linked":                    {on("thin:base-900-disk-0"), "pve1", one, "", proxmox.LinkedClone, "", ""},
		"linked, named":             {on("tank:base-900-disk-0"), "pve1", one, "tank", proxmox.LinkedClone, "", ""},
		"linked, on Btrfs":          {on("flash:900/base-900-disk-0.raw"), "pve1", one, "flash", proxmox.LinkedClone, "", ""},
		"linked, planned":           {on("thin:"), "pve1", one, "thin", proxmox.LinkedClone, "", ""},
		"linked, shared":            {on("nas:900/base-900-disk-0.qcow2"), "pve2", two, "", proxmox.LinkedClone, "", ""},
		"whole, LVM":                {on("vg:vm-900-disk-0"), "pve1", one, "", proxmox.FullClone, "vg is LVM without thin provisioning, which has no linked clones", ""},
		"whole, LVM planned":        {on("vg:"), "pve1", one, "vg", proxmox.FullClone, "vg is LVM without thin provisioning, which has no linked clones", ""},
		"whole, elsewhere":          {on("nas:900/base-900-disk-0.qcow2"), "pve1", one, "vg", proxmox.FullClone, "the template is on nas and the disk on vg", ""},
		"whole, EFI disk on LVM":    {on("thin:base-900-disk-0", "vg:vm-900-disk-0"), "pve1", one, "", proxmox.FullClone, "vg is LVM without", ""},
		"whole, shared LVM":         {on("san:vm-900-disk-0"), "pve2", two, "", proxmox.FullClone, "san is LVM without", ""},
		"whole, to a shared":        {on("nas:900/base-900-disk-0.qcow2"), "pve2", two, "san", proxmox.FullClone, "the template is on nas and the disk on san", ""},
		"none, local":               {on("thin:base-900-disk-0"), "pve2", two, "", proxmox.NoClone, "its storage thin is not shared with pve2", "create a template of that name on pve2 too"},
		"none, shared to local":     {on("nas:900/base-900-disk-0.qcow2"), "pve2", two, "thin", proxmox.NoClone, "only if both hosts share the disk's storage, and thin is pve2's own", "create a template of that name on pve2 too, or write storage: nas for the node"},
		"none, EFI disk on a local": {on("nas:900/base-900-disk-0.qcow2", "thin:base-900-disk-1"), "pve2", two, "", proxmox.NoClone, "its storage thin is not shared", ""},
		"none, a disc on a local":   {on("nas:900/base-900-disk-0.qcow2", "nas:900/base-900-disk-1.raw", "tank:iso/x.iso"), "pve2", two, "", proxmox.NoClone, "ide2 of tmpl (VM 900 on pve1) is on tank", "--ide2 none"},
		"none, iSCSI":               {on("thin:base-900-disk-0"), "pve1", one, "lun", proxmox.NoClone, "no disk can be created on lun, which is iSCSI", "put LVM on one"},
		"none, backups":             {on("thin:base-900-disk-0"), "pve1", one, "backups", proxmox.NoClone, "which is a backup server", "name a storage for disks"},
		"none, another's name":      {on("nas:900/base-900-disk-0.qcow2"), "pve2", two, "tank", proxmox.NoClone, "pve2 has no storage tank", "write another storage"},
		"none, disabled":            {on("thin:base-900-disk-0"), "pve1", []proxmox.Storage{off}, "thin", proxmox.NoClone, "pve1 has no storage thin, or it is disabled there", ""},
		"nothing known":             {proxmox.CloneSource{Host: "pve1", Drives: []proxmox.Drive{{Slot: "scsi0", Volume: "x:vm-900-disk-0"}}}, "pve1", nil, "", proxmox.FullClone, "scsi0 of the template is not a base disk", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := x.from.CloneTo(x.host, x.there, x.storage)
			assert.Equal(t, x.way, got.Mode, got)
			assert.Contains(t, got.Reason, x.why)
			assert.Contains(t, got.Cure, x.cur)
			assert.Equal(t, x.way == proxmox.NoClone, got.Cure != "")
		})
	}
}

// thick is a host whose vmdata is LVM without thin provisioning.
func thick() pvesim.Model {
	m := pvesim.EightA100()
	for i := range m.Hosts[0].Storages {
		if st := &m.Hosts[0].Storages[i]; st.Name == "vmdata" {
			st.Type = "lvm"
		}
	}
	return m
}

// Whole clones of a template on thick LVM end like linked ones when their process dies at any time,
// also one of which the copying takes hours.
func TestCrashDuringAWholeClone(t *testing.T) {
	mine := share.Start(t, "deaths during whole clones")
	for _, rate := range []pvesim.Size{0, 5 * pvesim.MiB} { // half a minute, or an hour
		step := 970 * time.Millisecond
		if rate > 0 {
			step = 7 * time.Second
		}
		for at := 50 * time.Millisecond; at < 20*time.Second; at += step {
			if !mine.Next() {
				continue
			}
			t.Run(fmt.Sprint(rate, " ", at), func(t *testing.T) {
				bubble(t, thick(), pvesim.Options{Timing: pvesim.Timing{CopyRate: rate}}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
					template(t, c)
					spec := scratchNode(t, c)
					ctx, cancel := context.WithTimeout(t.Context(), at)
					defer cancel()
					if ensure(ctx, dialSim(t, sim), spec) == nil {
						return
					}
					converges(t, sim, spec)
				})
			})
		}
	}
}

// A clone for another host is on its template's host until it is complete. A process that dies
// meanwhile leaves it there, and the next one finds it.
func TestCrashDuringACloneForAnotherHost(t *testing.T) {
	m := pvesim.TwoHosts()
	for i := range m.Hosts {
		m.Hosts[i].Storages = append(m.Hosts[i].Storages, pvesim.Storage{Name: "san", Type: "lvm", Content: []string{"images"}, Shared: true, Size: pvesim.TiB})
	}
	mine := share.Start(t, "deaths during clones for another host")
	for at := 50 * time.Millisecond; at < 12*time.Second; at += 330 * time.Millisecond {
		if !mine.Next() {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			bubble(t, m, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
				vm, err := c.VMs.Create(t.Context(), proxmox.CreateSpec{
					Name: "a100-template", Host: "pve1", Owner: owner, Image: fetch(t, c, "pve1"), Storage: "san", Cores: 2, Memory: 4 * proxmox.GiB,
				})
				require.NoError(t, err)
				require.NoError(t, c.Templates.Convert(t.Context(), vm))
				spec := node(t, c, "cp1")
				spec.Host, spec.Template, spec.TemplateID, spec.Seed, spec.Running = "pve2", "", vm.VMID, "", false
				ctx, cancel := context.WithTimeout(t.Context(), at)
				defer cancel()
				_ = ensure(ctx, dialSim(t, sim), spec)
				next := dialSim(t, sim)
				require.NoError(t, ensure(t.Context(), next, spec))
				all, err := next.VMs.List(t.Context(), owner)
				require.NoError(t, err)
				require.Len(t, all, 2, "the template and one VM, not two: %v", all)
				assert.Equal(t, "pve2", all[1].Host)
			})
		})
	}
}
