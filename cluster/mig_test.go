package cluster_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/nvidia/mig"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// offers is what Kubernetes can allocate of each node's GPUs.
func (w *world) offers(t testing.TB) map[string]map[string]int64 {
	t.Helper()
	out := map[string]map[string]int64{}
	for _, n := range w.nodes(t) {
		for name := range n.Allocatable {
			if count := n.Count(string(name)); count > 0 && strings.HasPrefix(string(name), "nvidia.com/") {
				if out[n.Name] == nil {
					out[n.Name] = map[string]int64{}
				}
				out[n.Name][string(name)] = count
			}
		}
	}
	return out
}

// smi runs nvidia-smi -L on a node, without the UUIDs.
func (w *world) smi(t testing.TB, name string) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(ask(t, w.guests()[name], "nvidia-smi", "-L")) {
		line, _, _ = strings.Cut(line, " (UUID")
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// GPUs are divided as the file says, whole and divided ones side by side; they stay so after a
// restart, change with a drain and a power cycle one node at a time, and become whole again.
func TestMIG(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := example(t, "eight-a100")
		alike := replace(t, text, "gpus: {count: 2, model: A100}", "gpus: {count: 2, model: A100, sharing: {strategy: mig, layouts: [{profiles: {3g.20gb: 2}}]}}")
		mixed := replace(t, alike, "layouts: [{profiles: {3g.20gb: 2}}]", "layouts: [{gpus: [1], profiles: {4g.20gb: 1, 1g.5gb: 3}}]")

		w.up(t, parse(t, alike))
		assert.Empty(t, w.plan(t, parse(t, alike)))
		assert.Equal(t, map[string]int64{"nvidia.com/gpu": 4}, w.offers(t)["wk-gpu1"])
		assert.Equal(t, "GPU 0: NVIDIA A100-PCIE-40GB\nMIG 3g.20gb Device 0:\nMIG 3g.20gb Device 1:\nGPU 1: NVIDIA A100-PCIE-40GB\nMIG 3g.20gb Device 0:\nMIG 3g.20gb Device 1:", w.smi(t, "wk-gpu1"))

		w.reboot(t, "wk-gpu1") // instances do not outlive that; the service makes them again
		time.Sleep(3 * time.Minute)
		assert.Equal(t, 4, strings.Count(w.smi(t, "wk-gpu1"), "3g.20gb"))
		assert.Empty(t, w.plan(t, parse(t, alike)))

		// Another layout: each node once, in turn.
		before := w.now()
		w.up(t, parse(t, mixed))
		assert.ElementsMatch(t, []string{"wk-gpu1", "wk-gpu2", "wk-gpu3", "wk-gpu4"}, before.changes().Restarted)
		assert.Equal(t, map[string]int64{"nvidia.com/gpu": 1, "nvidia.com/mig-4g.20gb": 1, "nvidia.com/mig-1g.5gb": 3}, w.offers(t)["wk-gpu3"])
		assert.Equal(t, "GPU 0: NVIDIA A100-PCIE-40GB\nGPU 1: NVIDIA A100-PCIE-40GB\nMIG 4g.20gb Device 0:\nMIG 1g.5gb Device 1:\nMIG 1g.5gb Device 2:\nMIG 1g.5gb Device 3:", w.smi(t, "wk-gpu3"))
		assert.Empty(t, w.plan(t, parse(t, mixed)))

		// Every instance computes, and the whole cards do.
		results, _, err := w.verify(t, parse(t, mixed))
		require.NoError(t, err)
		assert.Len(t, results, 4*(1+1+3))
		seen := map[string]bool{}
		for _, r := range results {
			assert.True(t, r.Passed)
			seen[r.UUID] = true
		}
		assert.Len(t, seen, 20)
		assert.Equal(t, "NVIDIA A100-PCIE-40GB MIG 4g.20gb", results[4].Name)

		// What somebody removes by hand is seen, and made again.
		ask(t, w.guests()["wk-gpu4"], "sh", "-c", "nvidia-smi mig -dci && nvidia-smi mig -dgi")
		assert.Contains(t, w.plan(t, parse(t, mixed)), "mig/wk-gpu4: GPU 1: in MIG mode, without instances → 3 of 1g.5gb, 1 of 4g.20gb (needs a restart)")
		before = w.now()
		w.up(t, parse(t, mixed))
		assert.Equal(t, []string{"wk-gpu4"}, before.changes().Restarted)
		assert.Equal(t, 4, strings.Count(w.smi(t, "wk-gpu4"), "MIG"))

		// And whole again, without a rest.
		before = w.now()
		w.up(t, parse(t, text))
		assert.Len(t, before.changes().Restarted, 4)
		assert.Equal(t, map[string]int64{"nvidia.com/gpu": 2}, w.offers(t)["wk-gpu2"])
		assert.Empty(t, w.plan(t, parse(t, text)))
		assert.Empty(t, ask(t, w.guests()["wk-gpu2"], "sh", "-c", "for f in /etc/homelab/mig.layout /usr/local/sbin/homelab-mig /etc/systemd/system/homelab-mig.service; do if [ -e $f ]; then echo $f; fi; done"))
	})
}

// From Hopper on the mode needs no reset, and is gone after each restart: a new node is divided
// as it is, and its service does both at every boot.
func TestMIGOnHopper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := pvesim.OneGPU()
		for i := range model.Hosts {
			for k := range model.Hosts[i].PCI {
				if d := &model.Hosts[i].PCI[k]; strings.HasPrefix(d.ID, "10de:") && strings.HasPrefix(d.Class, "03") {
					d.ID, d.Product = "10de:2330", "NVIDIA H100 80GB HBM3"
				}
			}
		}
		w := newWorld(t, model)
		divided := parse(t, replace(t, small, "gpus: 1}", "gpus: {count: 1, sharing: {strategy: mig, layouts: [{profiles: {3g.40gb: 1, 1g.10gb: 4}}]}}}"))
		w.up(t, divided)
		assert.NotContains(t, strings.Join(w.mutations(), "\n"), fmt.Sprintf("/qemu/%d/status/shutdown", w.vm(t, "gpu1").ID), "it is not restarted for that")
		assert.Equal(t, map[string]int64{"nvidia.com/mig-3g.40gb": 1, "nvidia.com/mig-1g.10gb": 4}, w.offers(t)["gpu1"])
		w.reboot(t, "gpu1")
		time.Sleep(3 * time.Minute)
		assert.Empty(t, w.plan(t, divided))
	})
}

// A card that does not take the mode stops the change at the first node, with what to do.
func TestMIGModeThatSticks(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := example(t, "eight-a100")
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		for name := range w.guests() {
			if strings.HasPrefix(name, "wk") {
				w.sim.SetGuestFaults(w.vm(t, name).ID, guest.Faults{MIGModeSticks: true})
			}
		}
		before := w.now()
		divided := replace(t, text, "gpus: {count: 2, model: A100}", "gpus: {count: 2, model: A100, sharing: {strategy: mig, layouts: [{profiles: {3g.20gb: 2}}]}}")
		_, err := w.cluster(t, parse(t, divided)).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "are not divided as in the file within 1m30s: GPU 0: whole, MIG mode pending → 2 of 3g.20gb (needs a restart)")
		assert.ErrorContains(t, err, "did not become healthy: fix that first, then run it again")
		assert.Len(t, before.changes().Restarted, 1)
	})
}

// Cards that cannot be divided as the file asks are an error of the plan, before anything is made.
func TestMIGLayoutThatNoCardHas(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := replace(t, example(t, "eight-a100"), "gpus: {count: 2, model: A100}", "gpus: {count: 2, sharing: {strategy: mig, layouts: [{profiles: {3g.40gb: 2}}]}}")
		_, err := w.cluster(t, parse(t, text)).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "the GPUs of wk-gpu1 cannot be divided into 2 of 3g.40gb: A100 40GB: it has no profile 3g.40gb: its profiles are 1g.5gb (at most 7)")
		assert.NotContains(t, w.names(), "wk-gpu1", "nothing is made")
		assert.NotContains(t, w.names(), "cp1")
	})
}

// docs/mig.md is what really happens to its own file.
func TestPageOfMIG(t *testing.T) {
	page, err := os.ReadFile("../docs/mig.md")
	require.NoError(t, err)
	_, file, _ := strings.Cut(string(page), "```yaml\n")
	file, _, _ = strings.Cut(file, "```")
	file = "name: lab\nproxmox: {endpoint: lab}\nnetwork: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}\nk3s: {version: v1.36.5+k3s1}\ndefaults: {storage: vmdata}\n" + file
	const layout = "profiles: {3g.20gb: 1, 1g.5gb: 3}"
	block := func(name, text string) {
		var out strings.Builder
		for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
			out.WriteString(strings.TrimRight("    "+line, " ") + "\n")
		}
		docBlock(t, "../docs/mig.md", name, out.String())
	}
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		w.up(t, parse(t, file))
		var offers []string
		for _, name := range slices.Sorted(maps.Keys(w.offers(t)["gpu1"])) {
			offers = append(offers, fmt.Sprintf("%s: %d", name, w.offers(t)["gpu1"][name]))
		}
		block("instances", "$ nvidia-smi -L\n"+ask(t, w.guests()["gpu1"], "nvidia-smi", "-L")+
			"\nallocatable: "+strings.Join(offers, ", "))

		c := w.cluster(t, parse(t, replace(t, file, layout, "profiles: {1g.5gb: 7}")))
		plan, err := c.Up().Plan(t.Context())
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, (&console.Console{Talk: &out, Data: &out}).Plan(plan))
		block("plan", "$ go tool mage cluster:plan\n"+out.String())
	})
	_, err = cluster.Parse("cluster.yaml", []byte(replace(t, file, layout, "profiles: {3g.20gb: 2, 1g.5gb: 1}")))
	require.Error(t, err)
	block("refused", err.Error())

	rows := []string{"| card | profiles, and how many of each at most |", "|---|---|"}
	for _, chip := range mig.Chips() {
		var all []string
		for _, p := range chip.Profiles {
			if strings.ContainsAny(p.Name, "+-") {
				continue // of a media engine or graphics
			}
			all = append(all, fmt.Sprintf("`%s` %d", p.Name, p.Max))
		}
		rows = append(rows, "| "+chip.Name+" | "+strings.Join(all, ", ")+" |")
	}
	docBlock(t, "../docs/mig.md", "chips", strings.Join(rows, "\n")+"\n")
}
