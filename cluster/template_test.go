package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/iso9660"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// internet can be switched off, and counts what was asked of it.
type internet struct {
	off   atomic.Bool
	asked atomic.Int32
}

func (i *internet) get(url string) ([]byte, error) {
	if i.off.Load() {
		return nil, errors.New("connect: network is unreachable")
	}
	i.asked.Add(1)
	return guest.DefaultInternet()(url)
}

// theirs makes a template as somebody would by hand from a cloud image, booted before
// or not, and returns its VMID.
func (w *world) theirs(t testing.TB, host, name string, booted bool) int {
	t.Helper()
	id, token := w.sim.Token()
	c, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: host, TokenID: id, TokenSecret: secret.New(token), HTTPClient: w.sim.Client()})
	require.NoError(t, err)
	const noble = "https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img"
	content, err := guest.DefaultInternet()(noble)
	require.NoError(t, err)
	image, err := c.Storages.Fetch(t.Context(), host, "local", proxmox.Image{URL: noble, SHA256: guest.SHA256(content), FileName: "theirs.qcow2"})
	require.NoError(t, err)
	spec := proxmox.CreateSpec{Name: name + "-new", Host: host, Owner: "somebody", Image: image, Storage: "vmdata", Cores: 2, Memory: 2 * proxmox.GiB,
		NICs: []proxmox.NIC{{Bridge: "vmbr0"}}}
	if booted {
		iso, err := iso9660.Build("cidata", map[string][]byte{"meta-data": []byte("instance-id: theirs\n"), "user-data": []byte("#cloud-config\npackages: [qemu-guest-agent]\n")})
		require.NoError(t, err)
		spec.Seed, err = c.Storages.Upload(t.Context(), host, "local", "theirs.iso", iso)
		require.NoError(t, err)
	}
	vm, err := c.VMs.Create(t.Context(), spec)
	require.NoError(t, err)
	if booted {
		require.NoError(t, c.VMs.Start(t.Context(), vm))
		time.Sleep(2 * time.Minute)
		require.NoError(t, c.VMs.Shutdown(t.Context(), vm))
	}
	require.NoError(t, c.Templates.Convert(t.Context(), vm))
	w.rename(t, vm, name)
	return vm.VMID
}

// rename gives a VM a name that others may have on other hosts.
func (w *world) rename(t testing.TB, vm *proxmox.VM, name string) {
	t.Helper()
	id, token := w.sim.Token()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("https://pve1:8006/api2/json/nodes/%s/qemu/%d/config", vm.Host, vm.VMID),
		strings.NewReader(url.Values{"name": {name}}.Encode()))
	require.NoError(t, err)
	req.Header.Set("Authorization", "PVEAPIToken="+id+"="+token)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := w.sim.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
}

// A bare cloud image made a template by somebody else: the nodes bring what it lacks.
func TestExistingTemplate(t *testing.T) {
	for _, by := range []string{"name", "VMID"} {
		t.Run(by, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				id := w.theirs(t, "pve1", "ubuntu-noble", false)
				ref := "ubuntu-noble"
				if by == "VMID" {
					ref = fmt.Sprint(id)
				}
				spec := parse(t, small+"image: {template: "+ref+"}\n")
				w.up(t, spec)
				assert.Empty(t, w.plan(t, spec))
				assert.EqualValues(t, 1, w.nodes(t)["gpu1"].Count("nvidia.com/gpu"))
				assert.Equal(t, []string{"cp1", "gpu1", "ubuntu-noble"}, w.names(), "nothing was baked")
				w.down(t, spec)
				assert.Equal(t, []string{"ubuntu-noble"}, w.names())
			})
		})
	}
}

// A template that Proxmox does not show is none that is not there: the list says why.
func TestTemplatesThatCannotBeRead(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		id := w.theirs(t, "pve1", "ubuntu-noble", false)
		spec := parse(t, small+"image: {template: ubuntu-noble}\n")
		require.Len(t, w.templates(t, spec), 1)
		for _, rule := range []pvesim.Rule{{Status: 403, Message: "Permission check failed"}, {Status: 500, Message: "unable to read the configuration"}, {Drop: true}} {
			rule.Method, rule.Path, rule.Times = http.MethodGet, fmt.Sprintf("/nodes/pve1/qemu/%d/.*", id), -1
			fault := w.sim.Fail(rule)
			c := w.cluster(t, spec)
			_, err := c.Templates(t.Context())
			require.ErrorContains(t, err, rule.Message)
			require.ErrorContains(t, err, fmt.Sprintf("/nodes/pve1/qemu/%d", id))
			c.Close()
			fault.Remove()
		}
		assert.Empty(t, w.templates(t, parse(t, small+"image: {template: another}\n")), "what is not there is said elsewhere")
	})
}

// What is wrong with a template is told with its cure, before anything was changed.
func TestUnfitTemplates(t *testing.T) {
	disk := "local:base-900-disk-0,size=4G"
	for name, c := range map[string]struct {
		config map[string]string
		ref    string
		want   string
	}{
		"no such":     {nil, "golden", `there is no VM golden, or the token may not see it (VM.Audit); there is no template: remove image.template`},
		"another":     {map[string]string{"template": "1"}, "golden", `templates are 900 "theirs" on pve1`},
		"no template": {map[string]string{}, "900", "theirs (VM 900 on pve1) is not a template; to make it one, switch it off and run on pve1: qm template 900"},
		"no disk":     {map[string]string{"template": "1", "virtio0": disk}, "900", "it has no disk at scsi0"},
		"SeaBIOS":     {map[string]string{"template": "1", "scsi0": disk}, "900", "qm set 900 --machine q35 --bios ovmf --efidisk0 local:0,efitype=4m"},
		"half":        {map[string]string{"template": "1", "scsi0": "local:vm-900-disk-0,size=4G"}, "theirs", "qm template 900 --disk scsi0"},
		"two disks":   {map[string]string{"template": "1", "scsi0": disk, "scsi1": disk}, "900", "qm set 900 --delete scsi1"},
		"cloud-init":  {map[string]string{"template": "1", "scsi0": disk, "ide0": "local:vm-900-cloudinit,media=cdrom"}, "900", "qm set 900 --delete ide0"},
		"secure boot": {map[string]string{"template": "1", "scsi0": disk, "bios": "ovmf", "efidisk0": "local:base-900-disk-1,efitype=4m,pre-enrolled-keys=1,size=4M"}, "900",
			"the firmware of each clone has the keys of Secure Boot (efidisk0, pre-enrolled-keys=1), and rejects modules that are built on the machine"},
		"a card":        {map[string]string{"template": "1", "scsi0": disk, "hostpci0": "mapping=card"}, "900", "qm set 900 --delete hostpci0"},
		"locked":        {map[string]string{"template": "1", "scsi0": disk, "lock": "backup"}, "900", "qm unlock 900"},
		"two of a name": {map[string]string{"template": "1", "name": "theirs"}, "theirs", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				if c.config != nil {
					w.sim.AddVM(pvesim.VM{ID: 900, Node: "pve1", Name: "theirs", Config: c.config})
				}
				if c.want == "" {
					w.sim.AddVM(pvesim.VM{ID: 901, Node: "pve1", Name: "theirs", Config: map[string]string{"template": "1"}})
					c.want = `pve1 has several VMs called theirs: 900 "theirs" on pve1, 901 "theirs" on pve1; write the VMID of one`
				}
				text := small + "image: {template: " + c.ref + "}\n"
				if name == "secure boot" {
					text += "nvidia: {driver: {mode: dkms}}\n"
				}
				w.refused(t, parse(t, text), c.want)
			})
		})
	}
}

// refused expects an error before anything was changed.
func (w *world) refused(t testing.TB, spec *spec.Spec, want string) {
	t.Helper()
	before := w.now()
	c := w.cluster(t, spec)
	defer c.Close()
	report, err := c.Up().Run(t.Context(), w.listen(t))
	require.Error(t, err)
	step, _ := report.Step("proxmox")
	require.ErrorContains(t, step.Err, want)
	assert.Equal(t, changes{}, before.changes())
}

const twoHosts = `
name: pair
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1}
defaults: {storage: vmdata}
image: {template: ubuntu}
nodes:
  cp1: {role: server, host: pve1, address: 10.0.0.11, cores: 2, memory: 4GiB}
  wk1: {role: agent, host: pve2, address: 10.0.0.21, cores: 2, memory: 4GiB}
`

// A template on one host of two: the other cannot have linked clones of it, nor any,
// unless both see its storage.
func TestTemplateOfAnotherHost(t *testing.T) {
	inWorld(t, pvesim.TwoHosts(), func(t *testing.T, w *world) {
		w.theirs(t, "pve1", "ubuntu", false)
		w.refused(t, parse(t, twoHosts), "pve2 has no template ubuntu: ubuntu (VM 100 on pve1) is on pve1, and its storage vmdata is not shared with pve2")
		w.theirs(t, "pve2", "ubuntu", false)
		w.up(t, parse(t, twoHosts))
		assert.Equal(t, "pve2", w.vm(t, "wk1").Node)
	})
}

func TestTemplateOnASharedStorage(t *testing.T) {
	m := pvesim.TwoHosts()
	for i := range m.Hosts {
		m.Hosts[i].Storages[1] = pvesim.Storage{Name: "vmdata", Type: "nfs", Content: []string{"images"}, Shared: true, Size: pvesim.TiB}
	}
	inWorld(t, m, func(t *testing.T, w *world) {
		w.theirs(t, "pve1", "ubuntu", false)
		spec := parse(t, twoHosts)
		w.up(t, spec)
		assert.Equal(t, "pve2", w.vm(t, "wk1").Node)
		assert.Empty(t, w.plan(t, spec))
	})
}

// PX18: a template that was booted and not sealed gives its clones one identity.
func TestTwinsAreTold(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.theirs(t, "pve1", "ubuntu", true)
		c := w.cluster(t, parse(t, small+"image: {template: ubuntu}\n"))
		defer c.Close()
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "cp1 and gpu1 have the same machine-id, ")
		assert.ErrorContains(t, err, "on one of them run: sudo rm -f /etc/machine-id")
	})
}

// Where no DHCP server is, the machine in which the template is baked has the address
// of the first node to come.
func TestBakingWithoutDHCP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &guest.Network{}
		w := newWorldWith(t, pvesim.OneGPU(), pvesim.Options{Network: network})
		defer func() { _ = network.Close() }()
		var seen atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !seen.Load() && time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) < time.Hour {
				if network.Host(netip.MustParseAddr("10.0.0.11")) != nil {
					assert.Len(t, w.names(), 1, "the template alone")
					seen.Store(true)
				}
				time.Sleep(time.Second)
			}
		}()
		spec := parse(t, small)
		w.up(t, spec)
		<-done
		assert.True(t, seen.Load())
		assert.Empty(t, w.plan(t, spec))
	})
}

// Without any address nothing can be installed, and that is said, after a while.
func TestBakingWithoutANetwork(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.sim.Fail(pvesim.Rule{Path: `.*/status/start`, Times: -1, Guest: &guest.Faults{AgentNeverAnswers: true}})
		c := w.cluster(t, parse(t, small))
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := c.Up().Run(ctx, w.listen(t))
		require.NoError(t, ctx.Err(), "it must give up by itself")
		require.ErrorContains(t, err, "on vmbr0 it has the address of a node that does not exist yet, such as 10.0.0.11/24, and must reach archive.ubuntu.com. "+
			"Check its console: qm terminal 100 on pve1")
	})
}

// Once the template is baked, a worker needs neither the internet nor a mirror.
func TestWorkerNeedsNoMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var net internet
		w := newWorldWith(t, pvesim.EightA100(), pvesim.Options{Internet: net.get})
		text := replace(t, small, "gpus: 1", "gpus: 2") + "guest: {packages: [htop, git]}\n"
		w.up(t, parse(t, text))
		net.off.Store(true)
		spec := parse(t, replace(t, text, "guest:", "  gpu2: {role: agent, address: 10.0.0.22, cores: 8, memory: 32GiB, gpus: 2}\nguest:"))
		asked := net.asked.Load()
		w.up(t, spec)
		assert.EqualValues(t, 2, w.nodes(t)["gpu2"].Count("nvidia.com/gpu"))
		assert.Equal(t, asked, net.asked.Load())
		assert.Empty(t, w.plan(t, spec))

		// A bare template would.
		w.down(t, spec)
		net.off.Store(false)
		w.theirs(t, "pve1", "ubuntu", false)
		net.off.Store(true)
		c := w.cluster(t, parse(t, text+"image: {template: ubuntu}\n"))
		defer c.Close()
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.Error(t, err)
	})
}

// Every stage of a bake is said, in order, with how far a download is.
func TestStagesOfABake(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		c := w.cluster(t, parse(t, small))
		defer c.Close()
		var said []string
		_, err := c.Up().Run(t.Context(), func(e converge.Event) {
			if e.Step == "template/pve1" {
				said = append(said, e.Message)
			}
		})
		require.NoError(t, err)
		all := strings.Join(said, "\n")
		want := `(?s)downloading .*: 48 %.*importing the image.*starting small-template.*waiting for the guest agent.*` +
			`installing NVIDIA driver 580-server.*installing NVIDIA container toolkit.*installing k3s v1\.36\.5.*sealing.*converting`
		assert.Regexp(t, regexp.MustCompile(want), all)
	})
}

// templates lists the templates as template:list does.
func (w *world) templates(t testing.TB, spec *spec.Spec) []string {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	all, err := c.Templates(t.Context())
	require.NoError(t, err)
	var out []string
	for _, i := range all {
		out = append(out, fmt.Sprintf("%s %s %s: %s, made %s, used by %v", i.Host, i.State, i.Size, i.Holds.String(), i.Holds.Made, i.Nodes))
	}
	return out
}

// prune removes what nothing needs and returns the plan for it.
func (w *world) prune(t testing.TB, spec *spec.Spec) []string {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	graph, err := c.Prune(t.Context())
	require.NoError(t, err)
	plan, err := graph.Plan(t.Context())
	require.NoError(t, err)
	require.NoError(t, plan.Err())
	var out []string
	for _, it := range plan.Items {
		if !it.Diff.Empty() {
			assert.NotEmpty(t, it.Costs, "%s takes something away, and says nothing of it", it.Step)
			out = append(out, regexp.MustCompile(`[0-9a-f]{12}`).ReplaceAllString(it.Step+": "+it.Diff.String(), "…"))
		}
	}
	_, err = graph.Run(t.Context(), w.listen(t))
	require.NoError(t, err)
	return out
}

// A template is listed with what is in it and who hangs on it; it is removed when it is
// old and nobody does, never before.
func TestTemplatesAreListedAndPruned(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		old := parse(t, small)
		assert.Empty(t, w.templates(t, old))
		w.up(t, old)
		const holds = "K3s v1.36.5+k3s1, driver 580-server-open, toolkit 1.20.1-1, on ubuntu-24.04-server-cloudimg-amd64.img"
		assert.Equal(t, []string{"pve1 current 3584MiB: " + holds + ", made 2000-01-01, used by [cp1 gpu1]"}, w.templates(t, old))
		assert.Empty(t, w.prune(t, old))

		// Another K3s: the template is old, and stays as long as nodes hang on it.
		newer := parse(t, replace(t, small, "v1.36.5+k3s1", "v1.36.6+k3s1"))
		assert.Equal(t, []string{"pve1 old 3584MiB: " + holds + ", made 2000-01-01, used by [cp1 gpu1]"}, w.templates(t, newer))
		assert.Empty(t, w.prune(t, newer))
		assert.Len(t, w.names(), 3)

		for _, name := range []string{"cp1", "gpu1"} { // destroyed by hand
			w.destroy(t, name)
		}
		untouched := parse(t, small)
		assert.NotContains(t, strings.Join(w.prune(t, untouched), "\n"), "template/", "it is the one that the file asks for")
		plan := w.prune(t, newer)
		assert.Equal(t, []string{"template/pve1/small-template-pve1-…: template 100, old, no VM uses it → (none)"}, plan)
		assert.Empty(t, w.names())
	})
}

// A host that the file no longer names has its template all the same.
func TestPruneFindsHostsThatTheFileForgot(t *testing.T) {
	inWorld(t, pvesim.TwoHosts(), func(t *testing.T, w *world) {
		text := strings.Replace(twoHosts, "image: {template: ubuntu}\n", "", 1)
		w.up(t, parse(t, text))
		one := parse(t, text[:strings.Index(text, "  wk1:")])
		w.up(t, one)
		assert.Len(t, w.templates(t, one), 2)
		plan := strings.Join(w.prune(t, one), "\n")
		assert.Contains(t, plan, "template/pve2/pair-template-pve2-…")
		assert.NotContains(t, plan, "template/pve1/")
		assert.NotContains(t, strings.Join(w.inventory(), "\n"), "on pve2")
		assert.Empty(t, w.plan(t, one))
	})
}

// A bake that was cut short, and then the file changed: the half-made template goes
// before another is made, since both would have one address.
func TestHalfMadeTemplateOfAnEarlierFile(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		require.False(t, w.cut(t, parse(t, small), 20*time.Second))
		time.Sleep(time.Minute)
		require.Len(t, w.names(), 1)
		half := w.names()[0]
		spec := parse(t, replace(t, small, "v1.36.5+k3s1", "v1.36.6+k3s1"))
		assert.Equal(t, []string{"pve1 half-made 3584MiB"}, []string{strings.Split(w.templates(t, spec)[0], ":")[0]})
		assert.Contains(t, strings.Join(w.plan(t, spec), "\n"), half+": VM 100, half-made → (none) [from an earlier file]")
		w.up(t, spec)
		assert.NotContains(t, w.names(), half)
		assert.Len(t, w.names(), 3)
		assert.Empty(t, w.plan(t, spec))
	})
}

// destroy removes a VM as a person would, in the web interface.
func (w *world) destroy(t testing.TB, name string) {
	t.Helper()
	id, token := w.sim.Token()
	c, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: w.sim.Client()})
	require.NoError(t, err)
	vm, err := c.VMs.GetByID(t.Context(), w.vm(t, name).ID)
	require.NoError(t, err)
	vm.Owner = "homelab-small"
	require.NoError(t, c.VMs.Remove(t.Context(), vm))
}

// A bake that is killed at any moment goes on from there: nothing is fetched or made
// twice, and nothing is a template before it is sealed.
func TestABakeGoesOn(t *testing.T) {
	mine := share.Start(t, "bakes cut off")
	for at := 2 * time.Second; at < 46*time.Second; at += 1700 * time.Millisecond {
		if !mine.Next() {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var net internet
				var images atomic.Int32
				w := newWorldWith(t, pvesim.OneGPU(), pvesim.Options{Internet: func(url string) ([]byte, error) {
					if strings.HasSuffix(url, ".img") {
						images.Add(1)
					}
					return net.get(url)
				}})
				spec := parse(t, small)
				require.False(t, w.cut(t, spec, at))
				for _, vm := range w.sim.VMs() {
					assert.True(t, !vm.Template || vm.Config["ide2"] == "" && strings.Contains(vm.Config["scsi0"], "base-"), "%v", vm.Config)
				}
				w.up(t, spec)
				assert.EqualValues(t, 1, images.Load(), "downloads")
				made := map[string]int{}
				for _, r := range w.mutations() {
					made[r]++
				}
				assert.Equal(t, 1, made["POST /nodes/pve1/qemu"], "machines to bake in")
				assert.Equal(t, 1, made["POST /nodes/pve1/qemu/100/template"])
				assert.LessOrEqual(t, made["POST /nodes/pve1/qemu/100/status/start"], 2, "the second finds that it runs")
				assert.Empty(t, w.plan(t, spec))
				assert.Equal(t, []string{"cp1", "gpu1"}, w.names()[:2])
				assert.Len(t, w.names(), 3)
			})
		})
	}
}

// A template whose host died while its disks became bases looks whole in Proxmox's
// list. It is not one before that is finished.
func TestHalfConvertedTemplate(t *testing.T) {
	var name string
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, small))
		name = w.names()[2]
	})
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.sim.AddVM(pvesim.VM{ID: 900, Node: "pve1", Name: name, Config: map[string]string{
			"template": "1", "tags": "homelab-small;homelab-small_900_0a0b0c0d", "smbios1": "uuid=0a0b0c0d-0000-4000-8000-000000000000", "bios": "ovmf", "scsi0": "vmdata:vm-900-disk-0,size=4G", "efidisk0": "vmdata:base-900-disk-1,efitype=4m,size=1M",
		}})
		spec := parse(t, small)
		assert.Contains(t, w.plan(t, spec), "template/pve1: half-made → "+name)
		assert.Contains(t, w.templates(t, spec)[0], "pve1 half-made 4GiB")
		c := w.cluster(t, spec)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		report, err := c.Up().Run(ctx, w.listen(t))
		require.Error(t, err, "there is no system on that disk")
		step, _ := report.Step("template/pve1")
		assert.Equal(t, converge.Changed, step.Kind)
		assert.Contains(t, w.vm(t, name).Config["scsi0"], "vmdata:base-900-disk-0")
	})
}
