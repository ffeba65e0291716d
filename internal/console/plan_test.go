package console

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

// planned is the plan of a cluster of three servers and some GPU workers. Steps that
// see does not know are clean.
func planned(workers int, see func(kind, of string) converge.Item) *converge.Plan {
	steps := []string{"proxmox", "removed", "template/pve1"}
	nodes := []string{"cp1", "cp2", "cp3"}
	for i := range workers {
		nodes = append(nodes, fmt.Sprintf("wk-gpu%d", i+1))
	}
	for i, n := range nodes {
		steps = append(steps, "seed/"+n)
		if i > 2 {
			steps = append(steps, "gpus/"+n)
		}
		steps = append(steps, "vm/"+n, "guest/"+n)
	}
	steps = append(steps, "k3s/cp1", "api/10.0.0.100", "k3s/cp2", "k3s/cp3")
	for _, n := range nodes[3:] {
		steps = append(steps, "driver/"+n, "k3s/"+n)
	}
	steps = append(steps, "kubeconfig")
	for _, n := range nodes {
		steps = append(steps, "node/"+n)
	}
	steps = append(steps, "device-plugin")
	for _, n := range nodes[3:] {
		steps = append(steps, "allocatable/"+n)
	}
	p := &converge.Plan{}
	for _, s := range append(steps, "leftovers") {
		kind, of, _ := strings.Cut(s, "/")
		it := see(kind, of)
		it.Step = s
		if it.Verdict == "" {
			it.Verdict = converge.Clean
		}
		p.Items = append(p.Items, it)
	}
	return p
}

// withPlatform adds parts behind a cluster.
func withPlatform(p *converge.Plan, see func(kind, of string) converge.Item) (*converge.Plan, []Part) {
	for _, s := range []string{"chart/nfs", "objects/nfs", "storage/shared", "chart/cert-manager", "objects/issuer", "secrets/jupyterhub", "chart/jupyterhub"} {
		kind, of, _ := strings.Cut(s, "/")
		it := see(kind, of)
		it.Step = s
		if it.Verdict == "" {
			it.Verdict = converge.Clean
		}
		p.Items = append(p.Items, it)
	}
	return p, []Part{
		{Name: "nfs", Chart: "csi-driver-nfs 4.13.4", Via: "direct", Classes: []string{"shared"}},
		{Name: "cert-manager", Chart: "cert-manager v1.21.2", Via: "fleet"},
		{Name: "issuer", Via: "direct"}, {Name: "jupyterhub", Chart: "jupyterhub 4.4.2", Via: "direct"},
	}
}

func TestStatusOfAPlatform(t *testing.T) {
	for name, see := range map[string]func(kind, of string) converge.Item{
		"ready": clean,
		"broken": func(kind, of string) converge.Item {
			switch kind + "/" + of {
			case "storage/shared":
				return converge.Item{Verdict: converge.Change, Diff: converge.Diff{{Have: "a pod could not mount it: mount.nfs: access denied by server", Want: "a volume is written and read", Effect: converge.Create}}}
			case "secrets/jupyterhub", "chart/jupyterhub":
				return converge.Item{Verdict: converge.Deferred, Reason: "after storage/shared"}
			case "chart/cert-manager":
				return converge.Item{Verdict: converge.Change, Diff: converge.Diff{{Path: "ready", Have: "deployment cert-manager/cert-manager: 0 of 1 pods are ready", Want: "ready", Effect: converge.Update}}}
			}
			return converge.Item{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := capture(100)
			plan, parts := withPlatform(planned(1, clean), see)
			assert.Equal(t, name != "ready", c.Status(plan, nil, parts...))
			golden(t, "status_platform_"+name+".txt", c.data.String())
		})
	}
}

func changes(d ...converge.Field) converge.Item {
	return converge.Item{Verdict: converge.Change, Diff: d}
}

func clean(string, string) converge.Item { return converge.Item{} }

// nothing is there yet: only what needs nothing else can be looked at.
func nothing(kind, of string) converge.Item {
	switch kind {
	case "proxmox", "removed":
		return converge.Item{}
	case "template":
		return changes(converge.Missing("eight-a100-template-pve1-51c23cddb31d")...)
	case "seed":
		return changes(converge.Missing("first-boot ISO on local")...)
	case "gpus":
		first := map[string]string{"wk-gpu1": "01:00, 0000:25", "wk-gpu2": "41:00, 0000:61"}[of]
		if first == "" {
			first = "81:00, 0000:a1"
		}
		return changes(converge.Field{Want: "mapping of 2 GPUs", Effect: converge.Create,
			Note: "0000:" + first + ":00: A100 PCIe 40GB, neighbours on the bus, IOMMU groups 21, 23 of their own"})
	}
	return converge.Item{Verdict: converge.Deferred, Reason: "after template/pve1"}
}

func resized(kind, of string) converge.Item {
	switch kind + "/" + of {
	case "vm/wk-gpu2":
		it := changes(
			converge.Field{Path: "memory", Have: "128GiB", Want: "96GiB", Effect: converge.Restart},
			converge.Field{Path: "description", Have: "GPU worker", Want: "GPU worker of the second rack, the one beside the window that is never opened"})
		it.Costs = []converge.Cost{{Machine: "wk-gpu2", Kind: converge.CostStop, Reason: "other memory", Users: losses("the notebook of teacher", "2 other pods"), Downtime: "2 to 10 min"}}
		return it
	case "node/wk-gpu2":
		return changes(converge.Field{Path: "label/homelab.example/tier", Have: `"gold"`, Want: `"silver"`})
	}
	return converge.Item{}
}

func removed(kind, _ string) converge.Item {
	switch kind {
	case "removed":
		it := changes(converge.Field{Path: "wk-gpu4", Have: "VM 108 on pve1", Effect: converge.Remove, Note: "no longer in the file"})
		it.Costs = []converge.Cost{{Machine: "wk-gpu4", Kind: converge.CostDestroy, Reason: "no longer in the file",
			Holds: losses("volume jupyterhub/claim-student3 (10Gi)", "disk data (2TiB)"), Users: losses("the notebook of student3", "4 other pods")}}
		return it
	case "leftovers":
		return changes(
			converge.Field{Path: "homelab_eight-a100_wk-gpu4_c4c1f3f14888.iso", Have: "on pve1", Effect: converge.Remove},
			converge.Field{Path: "mapping/eight-a100_wk-gpu4", Have: "unused", Effect: converge.Remove})
	}
	return converge.Item{}
}

func broken(kind, of string) converge.Item {
	switch kind + "/" + of {
	case "driver/wk-gpu3":
		return converge.Item{Verdict: converge.Failed, Err: errors.New("the host key of 10.0.0.23:22 is SHA256:abc, and SHA256:def was expected:\nif the machine was recreated, remove its line from .homelab/eight-a100/known_hosts")}
	case "k3s/wk-gpu3", "node/wk-gpu3", "allocatable/wk-gpu3":
		return converge.Item{Verdict: converge.Deferred, Reason: "driver/wk-gpu3 could not be checked"}
	case "vm/wk-gpu1":
		return changes(converge.Field{Path: "disk/os/size", Have: "500GiB", Want: "400GiB", Effect: converge.Replace, Note: "disks do not shrink"})
	case "k3s/cp2", "k3s/cp3":
		it := changes(converge.Field{Path: "version", Have: "v1.36.4+k3s1", Want: "v1.36.5+k3s1", Effect: converge.Restart})
		it.Costs = []converge.Cost{{Machine: of, Kind: converge.CostStop, Reason: "K3s v1.36.4+k3s1 → v1.36.5+k3s1", Downtime: "2 to 10 min"}}
		return it
	case "node/cp3":
		return changes(converge.Field{Path: "label/old", Have: `"x"`})
	case "allocatable/wk-gpu4":
		return converge.Item{Verdict: converge.Wait, Diff: converge.Diff{{Path: "GPUs", Have: "1", Want: "2 allocatable", Effect: converge.Create, Note: "driver, container toolkit and device plugin must all be in place"}}}
	}
	return converge.Item{}
}

func TestPlanAndStatus(t *testing.T) {
	for _, x := range []struct {
		name    string
		workers int
		see     func(kind, of string) converge.Item
	}{
		{"clean", 4, clean}, {"nothing", 4, nothing}, {"nothing_100", 97, nothing},
		{"resized", 4, resized}, {"removed", 3, removed}, {"broken", 4, broken},
	} {
		t.Run(x.name, func(t *testing.T) {
			plan := planned(x.workers, x.see)
			for _, width := range []int{80, 60} {
				c := capture(width)
				require.NoError(t, c.Plan(plan))
				assertFits(t, c.data.String(), width)
				if width == 80 {
					golden(t, "plan_"+x.name+".txt", c.data.String())
				}
				assert.Empty(t, c.talk.String(), "a plan is data")
				c = capture(width)
				assert.Equal(t, x.name != "clean", c.Status(plan, nil))
				assertFits(t, c.data.String(), width)
				if width == 80 && x.workers < 10 {
					golden(t, "status_"+x.name+".txt", c.data.String())
				}
			}
		})
	}
}

// assertFits forgives words that are longer than what is left of a line.
func assertFits(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if len(strings.Fields(line)) > 3 {
			assert.LessOrEqual(t, len([]rune(line)), width, line)
		}
	}
}

// A service that has ended is there already: it is not created.
func TestPlanOfAServiceThatHasEnded(t *testing.T) {
	c := capture(80)
	require.NoError(t, c.Plan(planned(1, func(kind, of string) converge.Item {
		if kind+"/"+of == "k3s/cp1" {
			return converge.Item{Verdict: converge.Change, Diff: converge.Diff{{Path: "state", Have: "activating", Want: "active", Effect: converge.Create}}}
		}
		return converge.Item{}
	})))
	assert.Contains(t, c.data.String(), "~ cp1  K3s  state: activating → active\n")
}

func TestPlanInAPipeIsNotBroken(t *testing.T) {
	c := capture(0)
	require.NoError(t, c.Plan(planned(4, broken)))
	assert.Contains(t, c.data.String(), "was expected: if the machine was recreated, remove its line from .homelab/eight-a100/known_hosts\n")
	assert.NotContains(t, c.data.String(), "\x1b")
	assert.NotContains(t, c.data.String(), "\u00a0")
}

func TestPlanInColour(t *testing.T) {
	c := capture(80)
	c.Console.data.paint = true
	require.NoError(t, c.Plan(planned(4, resized)))
	assert.Contains(t, c.data.String(), "\x1b[33m~\x1b[0m \x1b[1mwk-gpu2\x1b[0m\n")
	assert.Contains(t, c.data.String(), "memory: 128GiB → 96GiB, \x1b[1;33mneeds a restart\x1b[0m\n")
}

func TestPlanJSON(t *testing.T) {
	c := capture(80, "geheim-123")
	c.JSON = true
	p := planned(4, broken)
	p.Items[2].Verdict, p.Items[2].Err = converge.Failed, errors.New(`{"token":"geheim-123"}`)
	require.NoError(t, c.Plan(p))
	lines := strings.Split(strings.TrimSpace(c.data.String()), "\n")
	require.Len(t, lines, len(p.Items))
	assert.JSONEq(t, `{"step":"template/pve1","verdict":"failed","error":"{\"token\":\"[secret]\"}"}`, lines[2])
	assert.Contains(t, lines, `{"step":"vm/wk-gpu1","verdict":"change","diff":[{"path":"disk/os/size","have":"500GiB","want":"400GiB","effect":"replace","note":"disks do not shrink"}]}`)
	assert.Contains(t, lines, `{"step":"k3s/wk-gpu3","verdict":"deferred","because":"driver/wk-gpu3 could not be checked"}`)
}

func TestPlanOfDown(t *testing.T) {
	c := capture(80)
	require.NoError(t, c.Plan(&converge.Plan{Items: []converge.Item{
		{Step: "vm/cp1", Verdict: converge.Change, Diff: converge.DiffUnwanted("VM 105 on pve1")},
		{Step: "vm/wk-gpu1", Verdict: converge.Change, Diff: converge.DiffUnwanted("VM 108 on pve1")},
		{Step: "leftovers", Verdict: converge.Change, Diff: converge.Diff{{Path: "mapping/eight-a100_wk-gpu1", Have: "unused", Effect: converge.Remove}}},
		{Step: "files", Verdict: converge.Clean},
	}}))
	golden(t, "plan_down.txt", c.data.String())
}

// The table of machines stays readable: 140 columns in a file, and without the less important
// columns on a narrow terminal.
func TestStatusOfMachines(t *testing.T) {
	machines := map[string]Machine{}
	for i, name := range []string{"cp1", "cp2", "cp3", "wk-gpu1", "wk-gpu2", "wk-gpu3", "wk-gpu4"} {
		machines[name] = Machine{Role: "server", Address: fmt.Sprintf("10.0.0.%d", 11+i), VMID: fmt.Sprint(102 + i), Version: "v1.36.5+k3s1", Age: "41d"}
	}
	worker := machines["wk-gpu1"]
	worker.Role, worker.GPUs, worker.Holders = "agent", "4/8", "jupyterhub/teacher, jupyterhub/student2 (2), training/llm-finetune-0-with-a-long-name, training/llm-finetune-1-with-a-long-name"
	machines["wk-gpu1"] = worker
	for _, width := range []int{0, 110, 80} {
		for name, see := range map[string]func(kind, of string) converge.Item{"clean": clean, "broken": broken} {
			c := capture(width)
			c.Status(planned(4, see), machines)
			_, table, _ := strings.Cut("\n"+c.data.String(), "\n\n") // a line about a problem is not broken in a file
			assertFits(t, cmp.Or(table, c.data.String()), cmp.Or(width, 140))
			golden(t, fmt.Sprintf("status_machines_%s_%d.txt", name, width), c.data.String())
		}
	}
}

// The names of steps cannot write on the terminal.
func TestStatusForgesNothing(t *testing.T) {
	c := capture(0)
	c.Status(&converge.Plan{Items: []converge.Item{{Step: "vm/a\x1b[2J", Verdict: converge.Change, Diff: converge.Missing("x")}, {Step: "b\x1b[2J", Verdict: converge.Clean}}}, map[string]Machine{"c": {Role: "server"}})
	assert.NotContains(t, c.data.String()+c.talk.String(), "\x1b")
	assert.Contains(t, c.data.String(), "a")
}

// A recorder sees what the display shows.
func TestRecorder(t *testing.T) {
	c := capture(0)
	rec := &recorded{}
	c.Recorder = rec
	d := c.Display([]string{"vm/wk1"})
	d.Listen(converge.Event{Step: "vm/wk1", Kind: converge.Changed})
	d.Reset()
	d.Close()
	assert.Equal(t, []string{"vm/wk1 changed", "again", "closed"}, rec.said)
	assert.Contains(t, c.talk.String(), "vm/wk1")
}

type recorded struct {
	Recorder
	said []string
}

func (r *recorded) Listen(e converge.Event) { r.said = append(r.said, e.Step+" "+string(e.Kind)) }
func (r *recorded) Reset()                  { r.said = append(r.said, "again") }
func (r *recorded) Close()                  { r.said = append(r.said, "closed") }
