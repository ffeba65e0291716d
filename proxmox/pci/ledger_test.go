package pci

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// rack is a host with a card on each of its buses, with an audio function, and a network card.
func rack(t testing.TB, buses ...string) []Function {
	t.Helper()
	var out []Function
	for _, bus := range buses {
		out = append(out,
			Function{Address: must(t, bus+":00.0"), Class: "030000", Vendor: "10de", Device: "2204", Name: "GA102 [RTX 3090]"},
			Function{Address: must(t, bus+":00.1"), Class: "040300", Vendor: "10de", Device: "1aef", Name: "audio"})
	}
	return append(out, Function{Address: must(t, "0f:00.0"), Class: "020000", Vendor: "8086", Device: "1521", Name: "port"})
}

func configured(host string, vmid int, lines map[string]string) Guest {
	return Guest{
		Host: host, VMID: vmid, Name: "vm" + fmt.Sprint(vmid), Running: true, OnBoot: lines["onboot"] == "1", Template: lines["template"] == "1", Devices: lines,
	}
}

func pool(id string, entries ...string) MappingState { // "pve1=01:00", or with several
	m := MappingState{Mapping: Mapping{ID: id}}
	for _, e := range entries {
		host, path, _ := strings.Cut(e, "=")
		m.Add("node=" + host + ",path=" + path + ",id=10de:2204")
	}
	return m
}

// who has a claim on a card, and which mappings offer it, whatever part of it they name.
func TestWhoNamesACard(t *testing.T) {
	l := NewLedger([]string{"pve1", "pve2"}, map[string][]Function{"pve1": rack(t, "01", "02"), "pve2": rack(t, "01")},
		[]MappingState{pool("both", "pve1=01:00", "pve1=0000:02:00.0"), pool("pair", "pve1=01:00;02:00"), pool("far", "pve2=01:00"), pool("sound", "pve1=01:00.1"), pool("odd", "pve1=odd", "pve1=02:00")},
		[]Guest{
			configured("pve1", 100, map[string]string{"hostpci0": "01:00.1", "hostpci1": "0f:00"}),
			configured("pve1", 101, map[string]string{"hostpci0": "mapping=both,pcie=1", "hostpci3": "mapping=odd"}),
			configured("pve1", 102, map[string]string{"hostpci0": "mapping=none", "hostpci1": "odd"}),
			configured("pve2", 103, map[string]string{"hostpci0": "01:00"}),
			configured("pve2", 104, map[string]string{"hostpci0": "mapping=both"}),
		}, nil)
	var got []string
	for _, c := range l.Cards {
		var by []string
		for _, cl := range c.Claims {
			by = append(by, fmt.Sprintf("%d %s", cl.VMID, cl.Slot))
		}
		got = append(got, fmt.Sprintf("%s %s: mappings %s; VMs %s", c.Host, c.Address.Whole(), strings.Join(c.Mappings, ", "), strings.Join(by, ", ")))
	}
	assert.Equal(t, []string{
		"pve1 0000:01:00: mappings both, pair; VMs 100 hostpci0, 101 hostpci0",
		"pve1 0000:02:00: mappings both, pair, odd; VMs 101 hostpci0, 101 hostpci3",
		"pve2 0000:01:00: mappings far; VMs 103 hostpci0",
	}, got)
	assert.Len(t, l.MappingChoices("pve1", "odd"), 1, "what is not an address offers nothing")
	assert.Empty(t, l.MappingChoices("pve2", "both"), "it has none there")
	assert.Equal(t, [][]unit.PCIAddress{{must(t, "01:00.0"), must(t, "01:00.1"), must(t, "02:00.0"), must(t, "02:00.1")}}, l.MappingChoices("pve1", "pair"), "one device of both")
}

// A VM can get a device of a mapping if fewer claims than it has devices can take no others.
func TestWhatAMappingHasLeft(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	buses := []string{"01", "02", "03", "04"}
	for range 300 {
		mappings := []MappingState{{Mapping: Mapping{ID: "a"}}, {Mapping: Mapping{ID: "b"}}}
		has := map[string][]string{} // buses, by mapping
		for i := range mappings {
			for _, bus := range buses {
				if r.IntN(2) == 0 {
					mappings[i].Add("node=pve1,path=" + bus + ":00,id=10de:2204")
					has[mappings[i].ID] = append(has[mappings[i].ID], bus)
				}
			}
		}
		var vms []Guest
		want := []int{}
		for i := range 5 {
			lines, host := map[string]string{"hostpci0": buses[r.IntN(4)] + ":00"}, "pve1"
			can := []string{lines["hostpci0"][:2]}
			if id := []string{"a", "b", "none", ""}[r.IntN(4)]; id != "" {
				lines["hostpci0"], can = "mapping="+id, has[id]
			}
			if r.IntN(8) == 0 {
				host = "pve2"
			}
			if r.IntN(8) == 0 {
				lines["template"] = "1"
			}
			vms = append(vms, configured(host, 100+i, lines))
			elsewhere := slices.ContainsFunc(can, func(bus string) bool { return !slices.Contains(has["a"], bus) })
			if host == "pve1" && lines["template"] == "" && len(can) > 0 && !elsewhere {
				want = append(want, 100+i)
			}
		}
		l := NewLedger([]string{"pve1", "pve2"}, map[string][]Function{"pve1": rack(t, buses...), "pve2": rack(t, buses...)}, mappings, vms, nil)
		devices, claims := l.MappingClaims("pve1", "a")
		got := []int{}
		for _, cl := range claims {
			got = append(got, cl.VMID)
		}
		require.Equal(t, want, got, "a has %v, b has %v", has["a"], has["b"])
		require.Equal(t, len(has["a"]), devices)
	}
}

// A line of a container that names a GPU is read, in either spelling, and no other.
func TestLinesOfContainersThatNameGPUs(t *testing.T) {
	for value, want := range map[string]bool{"/dev/nvidia0": true, "NVIDIA_VISIBLE_DEVICES=all": true, "/dev/dri/card0": false, "": false} {
		assert.Equal(t, want, Entry{Key: "dev0", Value: value}.MayNameGPU(), value)
	}
}

// A container's claim is on its host's cards, once each, and no other container's.
func TestWhatContainersShare(t *testing.T) {
	container := func(host string, vmid int, entries ...Entry) Container {
		return Container{Host: host, VMID: vmid, Name: "c", Entries: entries}
	}
	l := NewLedger([]string{"pve0", "pve1"}, map[string][]Function{"pve0": rack(t, "05"), "pve1": rack(t, "01", "02", "03")}, []MappingState{pool("m", "pve1=03:00")}, nil, []Container{
		container("pve1", 200, Entry{"dev0", "/dev/nvidia0"}, Entry{"dev1", "/dev/nvidia0,mode=0666"}, Entry{"lxc.hook.mount", "/usr/share/lxc/hooks/nvidia"}),
		container("pve1", 201, Entry{"dev0", "/dev/nvidia0"}, Entry{"dev1", "/dev/nvidia2"}, Entry{"dev2", "/dev/nvidia3"}),
		container("pve0", 202, Entry{"lxc.environment", "NVIDIA_VISIBLE_DEVICES=0"}, Entry{"dev0", "/dev/nvidia1"}),
	})
	got := map[string]string{}
	for _, c := range l.Cards {
		for _, cl := range c.Claims {
			got[c.Host+" "+c.Address.Whole().String()] += fmt.Sprintf("%d by %s; ", cl.VMID, cl.Device)
			assert.Equal(t, [][]unit.PCIAddress{{c.Address, c.Functions[0].Address}}, cl.Choices, "all of the card")
		}
	}
	assert.Equal(t, map[string]string{
		"pve0 0000:05:00": "202 by NVIDIA's hook; ",
		"pve1 0000:01:00": "200 by /dev/nvidia0; 201 by /dev/nvidia0; ",
		"pve1 0000:02:00": "200 by NVIDIA's hook; ",
		"pve1 0000:03:00": "201 by /dev/nvidia2; ",
	}, got, "one that a mapping offers is the driver's only if there are no others of that number")
	assert.Len(t, l.Claims, 5)
}
