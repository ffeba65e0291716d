package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// gpuNodes is a file with a server and GPU nodes, one line of gpus each.
func gpuNodes(gpus ...string) string {
	out := strings.Split(small, "  gpu1:")[0]
	for i, g := range gpus {
		out += fmt.Sprintf("  gpu%d: {role: agent, address: 10.0.0.%d, cores: 8, memory: 32GiB, gpus: %s}\n", i+1, 21+i, g)
	}
	return out
}

// choices are the lines of a plan about GPUs.
func (w *world) choices(t *testing.T, file string) []string {
	t.Helper()
	return slices.DeleteFunc(w.plan(t, parse(t, file)), func(s string) bool { return !strings.HasPrefix(s, "gpus/") })
}

// refusal is what a plan says that cannot be had.
func (w *world) refusal(t *testing.T, file string) string {
	t.Helper()
	c := w.cluster(t, parse(t, file))
	defer c.Close()
	plan, err := c.Up().Plan(t.Context())
	require.NoError(t, err)
	require.Error(t, plan.Err())
	return plan.Err().Error()
}

func stranger(id int, hostpci string) pvesim.VM {
	return pvesim.VM{ID: id, Node: "pve1", Name: "win11", Config: map[string]string{"memory": "512", "hostpci0": hostpci}}
}

const a100 = "0000:%s:00: A100 PCIe 40GB"

func TestChoiceAndItsReason(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		file := gpuNodes("2", "1", "2", "{pci: ['25:00']}")
		want := []string{
			"gpus/gpu1: mapping of 2 GPUs [0000:41:00, 0000:61:00: A100 PCIe 40GB, neighbours on the bus, IOMMU groups 25, 27 of their own]",
			"gpus/gpu2: mapping of 1 GPU [0000:01:00: A100 PCIe 40GB, the first free one, IOMMU group 21 of its own]",
			"gpus/gpu3: mapping of 2 GPUs [0000:81:00, 0000:a1:00: A100 PCIe 40GB, neighbours on the bus, IOMMU groups 29, 31 of their own]",
			"gpus/gpu4: mapping of 1 GPU [0000:25:00: A100 PCIe 40GB, named in the file, IOMMU group 23 of its own]",
		}
		assert.Equal(t, want, w.choices(t, file))
		assert.Equal(t, want, w.choices(t, file), "and again")
		w.up(t, parse(t, file))
		assert.Empty(t, w.plan(t, parse(t, file)))
		for i, first := range []string{"41", "01", "81", "25"} {
			assert.Contains(t, w.vm(t, fmt.Sprintf("gpu%d", i+1)).PCI, "0000:"+first+":00.0")
		}

		// One more card: what is there stays, the next one is beside it where that is free.
		more := gpuNodes("2", "1", "3", "{pci: ['25:00']}")
		assert.Equal(t, []string{"gpus/gpu3: cards: 0000:81:00 0000:a1:00 → 0000:81:00 0000:a1:00 0000:c1:00 (needs a restart) " +
			"[0000:81:00, 0000:a1:00, 0000:c1:00: A100 PCIe 40GB, neighbours on the bus, IOMMU groups 29, 31, 33 of their own]"}, w.choices(t, more))
	})
}

// mostDown says how many machines are off at most, from now until it is asked.
func (w *world) mostDown(prefix string) (most func() int) {
	stop, n := make(chan struct{}), 0
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
			off := 0
			for _, vm := range w.sim.VMs() {
				if !vm.Running && strings.HasPrefix(vm.Name, prefix) {
					off++
				}
			}
			n = max(n, off)
		}
	})
	return func() int {
		close(stop)
		ended.Wait()
		return n
	}
}

// Nodes that ask for more keep what they have, and get free cards added: nothing is taken
// from a neighbour, so each restarts alone, once. Of those that ask for fewer the same.
func TestMoreAndFewerCards(t *testing.T) {
	for _, tt := range []struct {
		name         string
		before, then []string
		want         []string // cards as gpu1, gpu2, … have them
	}{
		{"each one more", []string{"1", "1", "1", "1"}, []string{"2", "2", "2", "2"}, []string{"01 81", "25 a1", "41 c1", "61 e1"}},
		{"neighbours where they are free", []string{"1", "{pci: ['81:00']}"}, []string{"2", "{pci: ['81:00']}"}, []string{"01 25", "81"}},
		{"one fewer, one more", []string{"2", "1"}, []string{"1", "2"}, []string{"01", "41 61"}},
		{"one fewer, and another is free", []string{"2", "1", "1"}, []string{"1", "2", "1"}, []string{"01", "41 81", "61"}},
		{"one fewer, and nothing else is free", []string{"5", "3"}, []string{"3", "5"}, []string{"01 25 41", "61 81 a1 c1 e1"}},
		{"what is given back, in a row", []string{"4", "2", "2"}, []string{"2", "2", "4"}, []string{"01 25", "81 a1", "41 61 c1 e1"}},
		{"a new node gets what is left", []string{"1", "1"}, []string{"2", "2", "4"}, []string{"01 41", "25 61", "81 a1 c1 e1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				w.up(t, parse(t, gpuNodes(tt.before...)))
				then := parse(t, gpuNodes(tt.then...))
				before, down := w.now(), w.mostDown("gpu")
				w.up(t, then)
				assert.LessOrEqual(t, down(), 1+max(0, len(tt.then)-len(tt.before)), "each goes down alone")
				for _, name := range before.changes().Restarted {
					assert.Equal(t, 1, strings.Count(strings.Join(before.changes().Restarted, " "), name), name)
				}
				for i, cards := range tt.want {
					vm := w.vm(t, fmt.Sprintf("gpu%d", i+1))
					for _, bus := range strings.Fields(cards) {
						assert.Contains(t, vm.PCI, "0000:"+bus+":00.0", vm.Name)
					}
				}
				assert.Empty(t, w.plan(t, then))
			})
		})
	}
}

func TestNoCardIsPromisedTwice(t *testing.T) {
	all := []string{"01", "25", "41", "61", "81", "a1", "c1", "e1"}
	entry := func(cards ...int) []string {
		var out []string
		for _, i := range cards {
			out = append(out, fmt.Sprintf("node=pve1,path=0000:%s:00,id=10de:20f1,iommugroup=%d,subsystem-id=10de:145f", all[i], 21+2*i))
		}
		return out
	}
	for _, tt := range []struct {
		name    string
		gpus    []string
		arrange func(*world)
		first   string // the card that gpu1 gets
		refused []string
	}{
		{name: "a stopped VM's, raw", gpus: []string{"1"}, arrange: func(w *world) { w.sim.AddVM(stranger(300, "0000:01:00,pcie=1")) }, first: "25"},
		{name: "all that a pool may give", gpus: []string{"1"}, first: "41", arrange: func(w *world) {
			w.sim.AddMapping("pool", "", entry(0, 1)...)
			w.sim.AddVM(stranger(300, "mapping=pool"))
		}},
		{name: "a mapping that nobody uses is no claim", gpus: []string{"1"}, first: "01", arrange: func(w *world) { w.sim.AddMapping("idle", "", entry(0)...) }},
		{name: "another cluster's, which has no VM yet", gpus: []string{"1"}, first: "25", arrange: func(w *world) {
			w.sim.AddMapping("other_gpu1", "made by homelab for cluster other", entry(0)...)
		}},
		{name: "what another node names", gpus: []string{"1", "{pci: ['01:00.0']}"}, first: "25"},
		{name: "what another node draws from", gpus: []string{"1", "{mapping: [pool]}"}, first: "41", arrange: func(w *world) { w.sim.AddMapping("pool", "", entry(0, 1)...) }},
		{name: "by address, of a stopped VM", gpus: []string{"{pci: ['01:00']}"}, arrange: func(w *world) { w.sim.AddVM(stranger(300, "01:00.0")) },
			refused: []string{"GPU 0000:01:00 on pve1 is claimed twice: by gpu1, and by VM 300 (win11), by address as hostpci0, stopped", "qm set 300 --delete hostpci0"}},
		{name: "a pool that is too small", gpus: []string{"{mapping: [pool]}", "{mapping: [pool]}"},
			arrange: func(w *world) {
				w.sim.AddMapping("pool", "", entry(0, 1)...)
				w.sim.AddVM(stranger(300, "mapping=pool"))
			},
			refused: []string{"gpus.mapping of gpu1: 0000:01:00, 0000:25:00 on pve1 cannot serve all who may want them", "VM 300 (win11) by mapping pool", "node gpu1; node gpu2"}},
		{name: "a pool with a card that a node names", gpus: []string{"{mapping: [pool]}", "{pci: ['01:00']}"},
			arrange: func(w *world) { w.sim.AddMapping("pool", "", entry(0)...) },
			refused: []string{"gpus.mapping of gpu1: 0000:01:00 on pve1 cannot serve", "node gpu2"}},
		{name: "of a VM that is taken over", gpus: []string{"1", "1, adopt: true"}, first: "25", arrange: func(w *world) {
			vm := stranger(300, "01:00")
			vm.Name = "gpu2"
			w.sim.AddVM(vm)
		}},
		{name: "more than there are", gpus: []string{"4", "4", "1"}, refused: []string{"gpu3 requests 1 GPU, and host pve1 has 0 available", "0000:01:00.0 belongs to node gpu1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				if tt.arrange != nil {
					tt.arrange(w)
				}
				file := gpuNodes(tt.gpus...)
				before := w.now()
				if len(tt.refused) == 0 {
					assert.Contains(t, w.choices(t, file)[0], "mapping of 1 GPU ["+fmt.Sprintf(a100, tt.first))
					return
				}
				text := w.refusal(t, file)
				for _, part := range tt.refused {
					assert.Contains(t, text, part)
				}
				assert.Equal(t, changes{}, before.changes())
			})
		})
	}
}

// A node of another name gets the card of the one that it comes after.
func TestRenamedNodeGetsTheCard(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, small))
		renamed := replace(t, small, "gpu1", "gpu7")
		w.up(t, parse(t, renamed))
		assert.Empty(t, w.plan(t, parse(t, renamed)))
		assert.NotContains(t, w.names(), "gpu1")
		assert.Len(t, w.sim.Mappings(), 1)
	})
}

// Two nodes that live and whose cards are exchanged in the file would have to be down together:
// that is refused by the plan, with the way to do it.
func TestExchangeIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name         string
		before, then []string
		who          string
	}{
		{"two", []string{"{pci: ['01:00']}", "{pci: ['25:00']}", "1"}, []string{"{pci: ['25:00']}", "{pci: ['01:00']}", "1"}, "gpu1 and gpu2"},
		{"in a circle", []string{"{pci: ['01:00']}", "{pci: ['25:00']}", "{pci: ['41:00']}"}, []string{"{pci: ['25:00']}", "{pci: ['41:00']}", "{pci: ['01:00']}"}, "gpu1 and gpu2 and gpu3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				w.up(t, parse(t, gpuNodes(tt.before...)))
				then := gpuNodes(tt.then...)
				before := w.now()
				_, errs := w.doubts(t, parse(t, then))
				for _, step := range []string{"gpus/gpu1", "gpus/gpu2"} {
					assert.Equal(t, tt.who+" would exchange GPUs, and be down at the same time\n"+
						"  remove gpus from gpu1 in the file, run cluster:up, add them again and run it again", errs[step])
				}
				assert.Empty(t, before.changes().Restarted)

				w.up(t, parse(t, gpuNodes(slices.Concat([]string{"0"}, tt.then[1:])...))) // as the refusal says
				w.up(t, parse(t, then))
				assert.Empty(t, w.plan(t, parse(t, then)))
				w.holdsWhatItsFileNames(t, then)
			})
		})
	}
}

// A machine without gpus releases its card when it restarts, also where its run was cut short before
// that: who gets the card stays up until then. Machines of agents come after those of servers, so a
// server gets such a card in two runs.
func TestCardOfANodeThatGetsNone(t *testing.T) {
	for name, cut := range map[string]bool{"in one run": false, "after one that was cut short": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				w.up(t, parse(t, gpuNodes("{pci: ['01:00']}", "{pci: ['25:00']}")))
				then := gpuNodes("0", "{pci: ['01:00']}")
				if cut {
					vm, err := w.cluster(t, parse(t, then)).Proxmox.VMs.GetByID(t.Context(), w.vm(t, "gpu1").ID)
					require.NoError(t, err)
					require.NoError(t, proxmox.DetachGPU(t.Context(), vm, "hostpci0"))
				}
				before := w.now()
				w.up(t, parse(t, then))
				assert.Equal(t, []string{"gpu1", "gpu2"}, before.changes().Restarted)
				assert.Empty(t, w.plan(t, parse(t, then)))
				w.holdsWhatItsFileNames(t, then)
			})
		})
	}
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		server := func(file, gpus string) string {
			return replace(t, file, "{role: server, ", "{role: server, gpus: "+gpus+", ")
		}
		w.up(t, parse(t, server(gpuNodes("{pci: ['01:00']}"), "{pci: ['25:00']}")))
		then := server(gpuNodes("0"), "{pci: ['01:00']}")
		assert.Contains(t, w.refusal(t, then), "cp1 gets a GPU of gpu1, whose machine changes only after those of the servers\n"+
			"  remove gpus from cp1 in the file, run cluster:up, add them again and run it again")
		w.up(t, parse(t, gpuNodes("0")))
		w.up(t, parse(t, then))
		assert.Empty(t, w.plan(t, parse(t, then)))
		w.holdsWhatItsFileNames(t, then)
	})
}

// A card that another node gives up for another one is passed on in the same run, each with one
// restart.
func TestCardsMoveOneAfterTheOther(t *testing.T) {
	for name, files := range map[string][2]string{
		"both are named":        {gpuNodes("{pci: ['01:00']}", "{pci: ['25:00']}"), gpuNodes("{pci: ['25:00']}", "{pci: ['41:00']}")},
		"who counts makes room": {gpuNodes("1", "{pci: ['25:00']}"), gpuNodes("1", "{pci: ['01:00']}")},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				w.up(t, parse(t, files[0]))
				before := w.now()
				w.up(t, parse(t, files[1]))
				assert.Equal(t, []string{"gpu1", "gpu2"}, before.changes().Restarted)
				assert.Empty(t, w.plan(t, parse(t, files[1])))
				w.holdsWhatItsFileNames(t, files[1])
			})
		})
	}
}

// holdsWhatItsFileNames checks the cards that VMs run with against the file's.
func (w *world) holdsWhatItsFileNames(t *testing.T, file string) {
	t.Helper()
	for _, n := range parse(t, file).GPUNodes() {
		assert.True(t, w.vm(t, n.Name).Running)
		for _, a := range n.GPUs.PCI {
			assert.Contains(t, w.vm(t, n.Name).PCI, a.First().String(), n.Name)
		}
	}
}

func TestMoveCutShort(t *testing.T) {
	first, then := gpuNodes("{pci: ['01:00']}", "{pci: ['25:00']}"), gpuNodes("{pci: ['25:00']}", "{pci: ['41:00']}")
	cut, mine := 0, share.Start(t, "moves of cards cut short")
	for done := false; !done; cut++ {
		if !mine.Next() {
			continue
		}
		inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
			w.up(t, parse(t, first))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			rule := w.sim.Fail(pvesim.Rule{Mutating: true, Skip: cut, After: true, Drop: true, When: func(pvesim.Request) bool { return true }})
			c := w.cluster(t, parse(t, then))
			go func() { // the process dies with the connection
				for ctx.Err() == nil && rule.Hits() == 0 {
					time.Sleep(time.Millisecond)
				}
				stop()
			}()
			_, _ = c.Up().Run(ctx, w.listen(t))
			c.Close()
			stop()
			done = rule.Hits() == 0
			rule.Remove()
			time.Sleep(time.Minute)
			w.up(t, parse(t, then))
			assert.Empty(t, w.plan(t, parse(t, then)), "cut at request %d", cut+1)
			w.holdsWhatItsFileNames(t, then)
		})
	}
	assert.Greater(t, cut, 5, "there is something to cut")
}
