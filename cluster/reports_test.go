package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet/lint"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// report is what somebody met on a machine of their own, and the right answer to it. Its folder in
// testdata/reports has the files, trimmed: those of cluster.yaml's kind, and site.yaml, the hosts.
type report struct {
	dir     string
	file    string   // what the command reads; cluster.yaml if empty
	command string   // validate, plan, up, host:check, host:check -ssh, host:prep, fleet:lint (dir is the repository) or explain (file is a kernel's log)
	site    string   // site.yaml if empty
	want    []string // parts of the answer
	notWant []string // parts that were in a wrong answer, or would make it one
}

// reports are in the order of their folders.
func reports() []report {
	lintFindings := []string{"error", "warning"}
	return []report{
		{dir: "02", command: "plan", want: []string{"0000:42:00, 0000:8c:00: RTX PRO 6000", "0001:04:00, 0001:c8:00: RTX PRO 6000"}},
		{dir: "02", file: "named.yaml", command: "plan", want: []string{"0001:04:00, 0001:c8:00: RTX PRO 6000 Blackwell Server Edition, named in the file"}},
		{dir: "04", command: "plan", want: []string{"0000:01:00: GeForce GTX 1660 SUPER, the only one"}},
		{dir: "05", command: "plan", want: []string{"mapping rtx2060, which gpu1 names, does not fit the hardware of pve1", "missing expected property 'iommugroup'"}},
		{dir: "07", command: "plan", want: []string{"there is no resource mapping gpu-2, which gpu1 names", "there is gpu-1"}},
		{dir: "07", file: "count.yaml", command: "plan", want: []string{"requests 2 GPUs", "has 1 available", "belongs to VM 500 (openshift)"}},
		{dir: "26", file: "real.yaml", site: "../04/site.yaml", command: "host:check", notWant: []string{"CPU type", "write cpu: host"}},
		{dir: "32", command: "plan", want: []string{"0000:08:00: L40, the first free one"}, notWant: []string{"L40S"}},
		{dir: "33", command: "host:check -ssh", want: []string{"loads vfio_virqfd", "sed -i --follow-symlinks", "0000:01:00.0 on pve1 is held by the host's driver nouveau"}},
		{dir: "33", command: "host:prep", want: []string{"The options are in the file, but the boot loader has not been updated yet", "vfio_virqfd is part of vfio since Linux 6.2"}, notWant: []string{"ours are added there"}},
		{dir: "vgpu", command: "plan", want: []string{"mapping of 1 GPU [0000:81:00: L40S"}, notWant: []string{"0000:41"}},
		{dir: "vgpu", file: "two.yaml", command: "plan", want: []string{"has 1 available", "0000:41:00.0 belongs to VM 700 (desktop)"}, notWant: []string{"0000:41:01"}},
		{dir: "vgpu", file: "named.yaml", command: "plan", want: []string{"0000:41:01 is a part of the card at 0000:41:00.0 (L40S): name that"}},
		{dir: "vgpu", file: "mapping.yaml", command: "plan", want: []string{"0000:41:01.1 is a virtual function of 0000:41:00.0 (L40S)"}},
		{dir: "pair", command: "plan", want: []string{"0000:21:00, 0000:22:00: GeForce RTX 3090", "together in IOMMU group 9"}},
		{dir: "pair", file: "board.yaml", command: "plan", want: []string{"0000:06:00, 0000:07:00: Tesla M60", "together in IOMMU group 5"}},
		{dir: "pair", file: "split.yaml", command: "plan", want: []string{"0000:21:00, 0000:22:00 share IOMMU group 9", "give one node all cards of the group"}},
		{dir: "pair", file: "named.yaml", command: "plan", want: []string{"0000:21:00.0 shares IOMMU group 9 with 0000:22:00.0, which gpu1 does not name"}},
		{dir: "kinds", file: "disk.yaml", command: "plan", want: []string{"mapping disk, which gpu1 names", "PM9A1 (144d:a80a, class 010802), and no NVIDIA GPU"}},
		{dir: "kinds", file: "sound.yaml", command: "plan", want: []string{"0000:01:00.1", "is a function of the card at 0000:01:00.0 without its GPU"}},
		{dir: "kinds", file: "away.yaml", command: "plan", want: []string{"it has no device on pve1; it has some on pve2"}},
		{dir: "kinds", file: "both.yaml", command: "plan", want: []string{"it gives 0000:01:00 and 0000:02:00 to a VM as one device"}},
		{dir: "kinds", file: "each.yaml", command: "plan", notWant: []string{"error"}},
		{dir: "capitals", command: "up", want: []string{"changed   allocatable/gpu1", "changed   vm/gpu1"}, notWant: []string{"failed  "}},
		{dir: "capitals", file: "small.yaml", command: "plan", want: []string{"there is no host gpu-node1 here; there is GPU-Node1"}},
		{dir: "container", command: "plan", want: []string{"mapping of 1 GPU [0000:02:00: GeForce RTX 3090"}},
		{dir: "container", file: "named.yaml", command: "plan", want: []string{"by container 105 (jellyfin), by /dev/nvidia0 as dev0, running", "pct set 105 --delete dev0"}},
		{dir: "console", command: "plan", want: []string{"mapping of 1 GPU [0000:02:00: GeForce RTX 3060"}, notWant: []string{"error", "warning"}},
		{dir: "console", file: "auto.yaml", command: "plan", want: []string{"mapping of 1 GPU [0000:02:00: GeForce RTX 3060"}},
		{dir: "console", file: "two.yaml", command: "plan", want: []string{"gpu1 requests 2 GPUs, and host pve1 has 1 available: 0000:01:00.0 is a GK208B [GeForce GT 710], and no supported driver works with it: branch 470 is the last"}},
		{dir: "console", file: "named.yaml", command: "plan", want: []string{"no NVIDIA driver fits the cards of gpu1: branch 470 is the last for 10de:128b (Kepler or older)"}, notWant: []string{"not in our table"}},
		{dir: "console", file: "model.yaml", command: "plan", want: []string{"0000:01:00.0 is a GK208B [GeForce GT 710], and no supported driver works with it"}},
		{dir: "18", file: "a.txt", command: "explain", want: []string{"GPU 0000:01:00.0 (machine): the GPU does not wake up (D3cold)", "the GPU does not answer after its reset", "switch the host off"}},
		{dir: "18", file: "b.txt", command: "explain", want: []string{"(FWSEC)", "the GPU's own processor (GSP) did not start"}},
		{dir: "18", file: "c.txt", command: "explain", want: []string{"the card was not reset after its last use", "the GPU's own processor (GSP) does not answer", "Xid 120"}},
		{dir: "18", file: "e.txt", command: "explain", want: []string{"Xid 154", "GPU Reset Required", "Xid 109", "the GPU's own processor (GSP) does not answer"}},
		{dir: "18", file: "legacy.txt", command: "explain", want: []string{"the chip does not work with this driver: 470.xx is its last branch"}},
		{dir: "19", file: "ns", command: "fleet:lint", want: []string{"fleet.yaml knows no key targetNamespace, which is a GitRepo's", "write namespace"}},
		{dir: "19", file: "all-matches", command: "fleet:lint", notWant: lintFindings},
		{dir: "19", file: "cert", command: "fleet:lint", notWant: lintFindings},    // the webhook's field is ignored by a pointer
		{dir: "19", file: "patches", command: "fleet:lint", notWant: lintFindings}, // Fleet's agent uses both entries
		{dir: "generations", command: "up", want: []string{"installing NVIDIA driver 580-server\n", "installing NVIDIA driver 580-server-open", "unchanged driver/old1", "unchanged driver/new1"}, notWant: []string{"failed  "}},
		{dir: "generations", file: "any.yaml", command: "plan", want: []string{"0000:01:00: Tesla P40", "0000:02:00: RTX PRO 6000"}, notWant: []string{"error"}},
		{dir: "generations", file: "mapping.yaml", command: "up", want: []string{"unchanged driver/old1", "unchanged driver/new1"}, notWant: []string{"failed  "}},
		{dir: "generations", file: "both.yaml", command: "plan", want: []string{"no NVIDIA driver fits the cards of gpu1", "give a machine cards of one kind"}},
		{dir: "13", command: "validate", want: []string{"k3s.agent.data-dir is set by homelab", "mount: /var/lib/rancher"}},
		{dir: "13", file: "disk.yaml", command: "validate", notWant: []string{"error:", "warning:"}},
		{dir: "16", command: "host:check", want: []string{"ok PX20", "ok PX1 "}, notWant: []string{"error", "warning"}},
		{dir: "16", file: "both.yaml", site: "two.yaml", command: "host:check", want: []string{"error PX20 pve2: pve2 has Proxmox VE 8.2.4, and a token can import images from 8.4 on", "warning PX20 pve2: pve2 has Proxmox VE 8.2.4, and the host that answers has 9.2.11"}},
		{dir: "38", command: "validate", want: []string{"no disk is mounted on /var/lib/longhorn2, so volumes are on the system disks; disks are mounted on /mnt/longhorn", "write path: /mnt/longhorn"}},
		{dir: "networks", file: "bond-vlan.yaml", command: "up", want: []string{"changed   node/cp1"}},
		{dir: "networks", file: "ovs.yaml", command: "up", want: []string{"changed   node/cp1"}},
		{dir: "networks", file: "aware.yaml", command: "up", want: []string{"changed   node/cp1"}},
		{dir: "networks", file: "vnet.yaml", command: "up", want: []string{"changed   node/cp1"}},
		{dir: "networks", file: "trunk.yaml", command: "up", want: []string{"changed   node/cp1"}},
		{dir: "networks", file: "tunnel.yaml", command: "up", want: []string{"changed   node/cp1"}},
		{dir: "networks", file: "long.yaml", command: "plan", want: []string{"bridge vmbr2 on pve1 is not VLAN-aware, and Proxmox cannot make enp129s0f0np0.100 for VLAN 100 (cp1): the name is longer than 15 characters", "make it VLAN-aware"}},
		{dir: "networks", file: "taken.yaml", command: "plan", want: []string{`VLAN 30 of bridge vmbr0 on pve1 (cp1) is the port bond0.30 of bridge vmbr3: Proxmox says "interface bond0.30 already exist in bridge vmbr3"`, "write bridge: vmbr3 without vlan:"}},
		{dir: "networks", file: "inner.yaml", command: "plan", want: []string{"the VNet k8s on pve1 is not VLAN-aware, and cp1 wants VLAN 5 in it", "remove vlan:"}},
		{dir: "networks", file: "jumbo.yaml", command: "host:check", want: []string{"warning network vx: cp1: the MTU is 1500 in the file, and the VNet vx has its zone's, 1450 in VXLAN and EVPN zones", "remove mtu: from the file"}},
		{dir: "networks", file: "ovs-jumbo.yaml", command: "host:check", want: []string{"warning network vmbr4: cp1: the MTU is 9000 in the file", "give the bridge an ovs_mtu line"}},
		{dir: "networks", file: "card.yaml", command: "plan", want: []string{"host pve1 has no bridge vlan20", "VMs join bridges, no cards, bonds or VLANs of the host", "make one whose port is vlan20"}, notWant: []string{"VNet"}},
		{dir: "networks", file: "slave.yaml", command: "plan", want: []string{"host pve1 has no bridge eno5", "VMs join bridges, no cards, bonds or VLANs of the host"}},
		{dir: "networks", file: "other.yaml", command: "plan", want: []string{"host pve2 has no bridge vmbr5, for w1, or the token may not see it; it has k8s, trunk, vmbr0, vx; pve1 has vmbr5"}},
		{dir: "networks", file: "auto.yaml", command: "up", want: []string{"changed   node/w2", "pve2 has no bridge vmbr5"}, notWant: []string{"template/pve2"}},
		{dir: "networks", file: "auto-none.yaml", command: "plan", want: []string{"no host has room for cp1", "pve1 has no bridge vmbr9; pve2 has no bridge vmbr9"}},
		{dir: "networks", file: "zone.yaml", command: "plan", want: []string{"host pve2 has no bridge nat, for w1", "pve1 has the VNet nat, whose zone is not on pve2"}},
		{dir: "networks", file: "inherit.yaml", command: "validate", want: []string{"mtu: 1 is Proxmox's word for the bridge's MTU; remove it"}},
		{dir: "storage", file: "local.yaml", site: "shared.yaml", command: "host:check", want: []string{
			"error clone pve2: no clone on pve2 can be made of the template, for w1, w2: Proxmox clones ubuntu-noble (VM 9000 on pve1) to pve2 only if both hosts share the disk's storage, and thin is pve2's own: create a template of that name on pve2 too, or write storage: nas for the node",
			"ok clone pve1: on pve1 the template is copied as a whole, 3.5GiB each time, for cp1: the template is on nas and the disk on thin"}},
		{dir: "storage", file: "local.yaml", site: "shared.yaml", command: "up", want: []string{"error: ", "thin is pve2's own"}, notWant: []string{"acting"}},
		{dir: "storage", file: "linked.yaml", site: "shared.yaml", command: "up", want: []string{"changed   node/w2", "cloning w2 from ubuntu-noble"}, notWant: []string{"whole"}},
		{dir: "storage", file: "san.yaml", site: "shared.yaml", command: "up", want: []string{"changed   node/w2", "copying ubuntu-noble as a whole to san, as w2"}},
		{dir: "storage", file: "baked-thin.yaml", site: "shared.yaml", command: "up", want: []string{"changed   node/w2", "changed   template/pve1", "changed   template/pve2"}},
		{dir: "storage", file: "names.yaml", site: "shared.yaml", command: "up", want: []string{"changed   node/w2"}, notWant: []string{"whole"}},
		{dir: "storage", file: "cifs.yaml", site: "shared.yaml", command: "up", want: []string{"changed   node/w2"}, notWant: []string{"whole"}},
		{dir: "storage", file: "lun.yaml", site: "shared.yaml", command: "plan", want: []string{"error: ", "no disk can be created on lun, which is iSCSI", "pvesm add lvm NAME --vgname GROUP --base lun:LUN --shared 1"}},
		{dir: "storage", file: "data.yaml", site: "shared.yaml", command: "plan", want: []string{"error: ", "no disk can be created on lun, which is iSCSI; it is named for the disk d of cp1"}},
		{dir: "storage", file: "off.yaml", site: "shared.yaml", command: "plan", want: []string{"error: ",
			`storage "old", for the template's disk, is disabled, or is not one of pve1`, `storage "first", for the template's disk, is disabled, or is not one of pve2`}},
		{dir: "storage", file: "big.yaml", site: "shared.yaml", command: "plan", want: []string{`new disks on storage "san" of pve1 take 458GiB at once, and 400GiB is free`}},
		{dir: "storage", file: "own.yaml", site: "lvm.yaml", command: "host:check", want: []string{"ok clone pve1: on pve1 the template is copied as a whole, 3.5GiB each time, for cp1: vg0 is LVM without thin provisioning"}, notWant: []string{"qm template"}},
		{dir: "storage", file: "own.yaml", site: "lvm.yaml", command: "plan", want: []string{"note: on pve1 the template is copied as a whole, 3.5GiB each time, for cp1"}, notWant: []string{"error:"}},
		{dir: "storage", file: "own.yaml", site: "lvm.yaml", command: "up", want: []string{"copying ubuntu-noble as a whole to vg0, as cp1", "changed   node/cp1"}},
		{dir: "storage", file: "baked.yaml", site: "lvm.yaml", command: "plan", want: []string{"note: on pve1 the template is copied as a whole for cp1: vg0 is LVM"}},
		{dir: "storage", file: "baked.yaml", site: "lvm.yaml", command: "up", want: []string{"as a whole to vg0, as cp1", "changed   node/cp1"}},
	}
}

// TestReports gives each report the answer that its command prints.
func TestReports(t *testing.T) {
	for _, r := range slices.Concat(reports(), wishes(), machines()) {
		name := strings.Join([]string{r.dir, r.command, r.file}, " ")
		t.Run(strings.TrimSpace(name), func(t *testing.T) {
			got := r.answer(t)
			for _, want := range r.want {
				assert.Contains(t, got, want)
			}
			for _, not := range r.notWant {
				assert.NotContains(t, got, not)
			}
			assert.NotEmpty(t, append(r.want, r.notWant...), got)
		})
	}
}

// TestReportsAreUsed: a file that no row reads proves nothing.
func TestReportsAreUsed(t *testing.T) {
	read := map[string]bool{}
	for _, r := range slices.Concat(reports(), wishes(), machines()) {
		read[r.path("")], read[r.sitePath()] = true, true
	}
	files, err := filepath.Glob("testdata/reports/*/*")
	require.NoError(t, err)
	for _, f := range files {
		assert.True(t, read[f], "no row reads %s", f)
	}
}

func (r report) path(file string) string {
	if file == "" {
		file = "cluster.yaml"
	}
	if r.file != "" {
		file = r.file
	}
	return filepath.Join("testdata", "reports", r.dir, file)
}

func (r report) sitePath() string {
	site := r.site
	if site == "" {
		site = "site.yaml"
	}
	return filepath.Join("testdata", "reports", r.dir, site)
}

// answer is all that the command says, errors included.
func (r report) answer(t *testing.T) string {
	t.Helper()
	switch r.command {
	case "fleet:lint":
		return r.lint(t)
	case "explain":
		return r.explain(t)
	}
	file := r.spec(t)
	s, err := cluster.Parse("cluster.yaml", file)
	if err != nil || r.command == "validate" {
		return said(s, err)
	}
	var out string
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, r.model(t))
		out = said(s, r.ask(t, w, s, &out)) + out
	})
	return out
}

// shells logs in to the hosts as root if the command says so.
func (r report) shells(t *testing.T, w *world) func(context.Context, string) (remote.Runner, error) {
	t.Helper()
	if !strings.HasSuffix(r.command, "-ssh") {
		return nil
	}
	site := prepSiteOf(t, w.sim, r.model(t), string(r.spec(t)))
	return func(_ context.Context, host string) (remote.Runner, error) { return site.root[host], nil }
}

// model is the site; a file without tokens has the usual one.
func (r report) model(t *testing.T) pvesim.Model {
	t.Helper()
	site, err := os.ReadFile(r.sitePath())
	require.NoError(t, err)
	model, err := pvesim.ParseModel(r.sitePath(), site)
	require.NoError(t, err)
	return model.WithOperator()
}

// spec reads the cluster's file; @PROXMOX@ in it is the simulated site.
func (r report) spec(t *testing.T) []byte {
	t.Helper()
	file, err := os.ReadFile(r.path(""))
	require.NoError(t, err)
	return []byte(strings.ReplaceAll(string(file), "@PROXMOX@", `endpoint: "https://pve1:8006", token: homelab@pve!operator, secret: "file:token"`))
}

// said is what a file's reader says of it, and an error.
func said(s *spec.Spec, err error) string {
	var b strings.Builder
	if s != nil {
		for _, w := range s.Warnings {
			fmt.Fprintf(&b, "warning: %s\n", w)
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "error: %s\n", err)
	}
	return b.String()
}

// ask gives the command to the site.
func (r report) ask(t *testing.T, w *world, s *spec.Spec, out *string) error {
	t.Helper()
	id, token := w.sim.Token()
	pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: w.sim.Client()})
	require.NoError(t, err)
	s, err = placement.Place(t.Context(), s, pve)
	if err != nil {
		return err
	}
	s.Platform.Charts.Folder, s.Platform.Charts.Offline = charts(t), true
	c := w.cluster(t, s)
	defer c.Close()
	var b strings.Builder
	defer func() { *out = b.String() }()
	switch r.command {
	case "host:check", "host:check -ssh":
		found, err := c.HostCheck(t.Context(), r.shells(t, w))
		if err != nil {
			return err
		}
		for _, f := range found.Findings {
			fmt.Fprintf(&b, "%s %s %s: %s: %s: %s\n", f.Verdict, f.ID, f.Subject, f.Evidence, f.Cure, f.Command)
		}
		return nil
	case "plan":
		plan, err := c.Up().Plan(t.Context())
		if err != nil {
			return err
		}
		for _, it := range plan.Items {
			fmt.Fprintf(&b, "%s: %s %s\n", it.Step, it.Diff, it.Reason)
			for _, f := range it.Diff {
				b.WriteString("  " + f.Note + "\n")
			}
		}
		warnings, notes := c.HostWarnings()
		for _, n := range notes {
			fmt.Fprintf(&b, "note: %s\n", n)
		}
		for _, d := range warnings {
			fmt.Fprintf(&b, "warning: %s\n", d)
		}
		return plan.Err()
	case "host:prep":
		for _, h := range s.Proxmox.Hosts {
			prep := prepSiteOf(t, w.sim, r.model(t), string(r.spec(t))).prep()
			plan, err := prep.PlanHost(t.Context(), h.Name)
			if err != nil {
				return err
			}
			for _, change := range plan.Changes {
				fmt.Fprintf(&b, "%s: %s: %s\n", change.ID, change.What, change.Why)
			}
			for _, n := range plan.Notes {
				fmt.Fprintf(&b, "note: %s\n", n.What)
			}
		}
		return nil
	case "up":
		_, err := c.Up().Run(t.Context(), w.listen(t))
		b.WriteString(w.output.String())
		if err == nil {
			assert.Empty(t, w.plan(t, s), "the second time there is nothing to do")
		}
		return err
	}
	return errors.New("no command " + r.command)
}

func (r report) lint(t *testing.T) string {
	t.Helper()
	root, err := os.OpenRoot(filepath.Join("testdata", "reports", r.dir, r.file))
	require.NoError(t, err)
	defer root.Close()
	found, err := lint.Run(context.Background(), root.FS(), lint.Options{})
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, found.Text(&b))
	return b.String()
}

func (r report) explain(t *testing.T) string {
	t.Helper()
	log, err := os.ReadFile(r.path(""))
	require.NoError(t, err)
	var b strings.Builder
	for _, f := range nvidia.ExplainLog(strings.Split(string(log), "\n")) {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}
