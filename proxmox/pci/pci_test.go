package pci

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// A card's functions, and who shares its IOMMU group, of which bridges are no strangers.
func TestWhatIsACard(t *testing.T) {
	device := func(at, class, vendor string, group int) Function {
		a, err := unit.ParsePCIAddress(at)
		require.NoError(t, err)
		return Function{Address: a, Class: class, Vendor: vendor, IOMMUGroup: group, Name: "N" + at}
	}
	all := []Function{
		device("00:01.0", "060400", "1022", 7), device("01:00.0", "030000", "10de", 7), device("01:00.1", "040300", "10de", 7), device("02:00.0", "020000", "8086", 7), device("00:02.0", "060000", "1022", 7),
		device("03:00.0", "030200", "10de", -1), device("04:00.0", "010802", "144d", -1), device("05:00.0", "030000", "1a03", 9), device("06:00.0", "010802", "10de", 10),
	}
	names := func(devices []Function) (out []string) {
		for _, d := range devices {
			out = append(out, d.Address.String())
		}
		return out
	}
	gpus := GPUs(all)
	require.Len(t, gpus, 2)
	first := GPUs([]Function{device("01:00.0", "030000", "10de", 0), device("02:00.0", "020000", "8086", 0), device("03:00.0", "020000", "8086", 1)})
	assert.Equal(t, []string{"0000:02:00.0"}, names(first[0].Group), "group 0 is one as well")
	assert.Equal(t, []string{"0000:01:00.1"}, names(gpus[0].Functions))
	assert.Equal(t, []string{"0000:02:00.0"}, names(gpus[0].Group))
	assert.Equal(t, "shares IOMMU group 7 with 0000:02:00.0 N02:00.0: use another slot, or firmware with ACS", gpus[0].Problem())
	assert.Empty(t, gpus[1].Functions)
	assert.Empty(t, gpus[1].Group)
	assert.Contains(t, gpus[1].Problem(), "no IOMMU group")
	assert.Empty(t, GPU{}.Problem())
	for in, want := range map[string]string{"GA100 [A100 PCIe 40GB]": "A100 PCIe 40GB", "GA100 [A100": "GA100 [A100", "GA100": "GA100"} {
		assert.Equal(t, want, modelOf(in))
	}
	at := func(all []unit.PCIAddress) (out []string) {
		for _, a := range all {
			out = append(out, a.String())
		}
		return out
	}
	for path, want := range map[string][]string{
		"01:00": {"0000:01:00.0", "0000:01:00.1"}, "01:00.1": {"0000:01:00.1"}, "odd;02:00.0": {"0000:02:00.0"}, "09:00;05:00": {"0000:09:00", "0000:05:00.0"}, "": nil,
	} {
		assert.Equal(t, want, at(functionsOf(path, all)), path)
	}
}

func TestHowAClaimIsMade(t *testing.T) {
	for want, c := range map[string]Claim{
		"by address as hostpci0, stopped":                       {},
		"by address as hostpci0, running":                       {Running: true, OnBoot: true},
		"by address as hostpci0, until its next start":          {Running: true, Leaving: true},
		"by address as hostpci0, stopped, starts with the host": {OnBoot: true},
		"by mapping gpus as hostpci0, a template":               {Mapping: "gpus", Template: true, OnBoot: true},
	} {
		c.Slot = "hostpci0"
		assert.Equal(t, want, c.Description())
	}
}

// A VM claims what it has now and what it has after its next start.
func TestWhatAVMClaims(t *testing.T) {
	v := Guest{
		Host: "pve1", VMID: 100, Name: "a", Running: true,
		Devices: map[string]string{"hostpci0": "02:00", "hostpci1": "mapping=m", "hostpci7": "host=odd", "memory": "2"},
		Leaving: map[string]string{"hostpci0": "01:00", "hostpci15": "host=03:00,mdev=x", "memory": "1"},
	}
	for _, c := range claimsOf(v, nil, nil) {
		assert.Equal(t, c.Slot != "hostpci7" && c.Slot != "hostpci1", len(c.Choices) == 1, c.Slot)
	}
	var got []string
	for _, c := range claimsOf(v, nil, nil) {
		shared := ""
		if c.Shared {
			shared = ", shared"
		}
		got = append(got, c.Description()+shared)
	}
	assert.Equal(t, []string{"by address as hostpci0, running", "by address as hostpci0, until its next start", "by mapping m as hostpci1, running", "by address as hostpci7, running", "by address as hostpci15, until its next start, shared"}, got)
}

// Virtual functions are parts of their card, whether the host says so or not.
func TestVirtualFunctions(t *testing.T) {
	function := func(at string, group int) Function {
		a, err := unit.ParsePCIAddress(at)
		require.NoError(t, err)
		return Function{Address: a, Class: "030200", Vendor: "10de", Device: "26b9", IOMMUGroup: group}
	}
	first := function("41:00.0", 1).Address
	for _, told := range []bool{false, true} {
		all := []Function{function("41:00.0", 1), function("41:00.4", 2), function("41:01.1", 1), function("42:00.0", 1), function("43:01.0", 9)}
		if told {
			all[1].Physical, all[2].Physical = &first, &first
		}
		gpus := GPUs(all)
		require.Len(t, gpus, 3, "43:01.0 has no card before it on its bus")
		assert.Len(t, gpus[0].Virtual, 2)
		assert.Equal(t, "0000:42:00.0", gpus[0].GroupMembers[0].Address.String())
		assert.Empty(t, gpus[0].Functions)
		assert.Empty(t, gpus[0].Group, "a part of a card is not a stranger in its group")
		assert.Equal(t, []string{"0000:41:00.0", "0000:42:00"}, []string{gpus[0].mappedDevice("pve1").Address.String(), gpus[1].mappedDevice("pve1").Address.String()},
			"a whole slot would be all of its virtual functions")
		l := NewLedger([]string{"pve1"}, map[string][]Function{"pve1": all}, nil, nil, nil)
		card, there := l.Card("pve1", all[2].Address)
		assert.True(t, there && card.Address == first && card.HasVirtualFunction(all[2].Address) && !card.HasVirtualFunction(first))
	}
	divided := function("41:00.0", 1)
	divided.Mediated = true
	assert.Contains(t, GPUs([]Function{divided})[0].Problem(), "vGPU driver")
}

// A container's device is a number of the host's driver, which has the cards that no VM may get.
func TestWhatAContainerClaims(t *testing.T) {
	var all []Function
	for _, at := range []string{"01:00.0", "02:00.0", "03:00.0"} {
		a, err := unit.ParsePCIAddress(at)
		require.NoError(t, err)
		all = append(all, Function{Address: a, Class: "030000", Vendor: "10de", Device: "2204"})
	}
	vm := Guest{Host: "pve1", VMID: 100, Running: true, Devices: map[string]string{"hostpci0": "01:00"}}
	for value, want := range map[string]string{
		"/dev/nvidia0,gid=44": "02", "path=/dev/nvidia1": "03", "/dev/nvidia2 dev/nvidia2 none bind,optional,create=file": "03",
		"/dev/nvidia7": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": "", "NVIDIA_VISIBLE_DEVICES=all": "02 03", "/usr/share/lxc/hooks/nvidia": "02 03", "NVIDIA_VISIBLE_DEVICES=void": "",
	} {
		l := NewLedger([]string{"pve1"}, map[string][]Function{"pve1": all}, nil, []Guest{vm},
			[]Container{{Host: "pve1", VMID: 101, Name: "plex", Running: true, Entries: []Entry{{Key: "dev0", Value: value}}}})
		var got []string
		for _, c := range l.Cards {
			for _, cl := range c.Claims {
				if cl.Container {
					got = append(got, c.Address.String()[5:7])
					assert.Equal(t, "container 101 (plex)", cl.String())
					assert.Contains(t, cl.Description(), "as dev0, running")
					assert.Equal(t, "remove it from the container, on pve1: pct set 101 --delete dev0", cl.ReleaseCommand())
				}
			}
		}
		assert.Equal(t, want, strings.Join(got, " "), value)
	}
	assert.Contains(t, Claim{Container: true, VMID: 101, Slot: "lxc.mount.entry"}.ReleaseCommand(), "/etc/pve/lxc/101.conf")
}

// What a mapping gives to a VM has to be one whole card.
func TestWhatAMappingGives(t *testing.T) {
	at := func(text string) unit.PCIAddress {
		a, err := unit.ParsePCIAddress(text)
		require.NoError(t, err)
		return a
	}
	first := at("01:00.0")
	all := []Function{
		{Address: first, Class: "030000", Vendor: "10de", Device: "2204", Name: "GA102 [RTX 3090]"}, {Address: at("01:00.1"), Class: "040300", Vendor: "10de", Device: "1aef", Name: "audio"},
		{Address: at("01:00.4"), Class: "030200", Vendor: "10de", Device: "2204", Physical: &first}, {Address: at("02:00.0"), Class: "030000", Vendor: "10de", Device: "2204"},
		{Address: at("03:00.0"), Class: "010802", Vendor: "144d", Device: "a80a", VendorName: "Samsung", Name: "PM9A1"},
	}
	var mappings []MappingState
	for id, path := range map[string]string{"card": "01:00", "gpu": "0000:01:00.0", "two": "0000:01:00;0000:02:00", "part": "0000:01:00.4", "sound": "0000:01:00.1", "disk": "0000:03:00", "gone": "0000:09:00"} {
		m := MappingState{Mapping: Mapping{ID: id}}
		m.Add("node=pve1,path=" + path + ",id=10de:2204")
		mappings = append(mappings, m)
	}
	away := MappingState{Mapping: Mapping{ID: "away"}}
	away.Add("node=pve2,path=0000:01:00,id=10de:2204")
	away.Add("node=pve3,path=0000:01:00;0000:02:00,id=10de:2204")
	l := NewLedger([]string{"pve1"}, map[string][]Function{"pve1": all}, append(mappings, away), nil, nil)
	for id, want := range map[string]string{
		"card": "", "gpu": "", "none": "", "gone": "",
		"away":  "it has no device on pve1; it has some on pve2, pve3",
		"two":   "it gives 0000:01:00 and 0000:02:00 to a VM as one device: make an entry of it for each",
		"part":  "0000:01:00.4 is a virtual function of 0000:01:00.0 (RTX 3090), for NVIDIA's vGPU software, which this does not install",
		"sound": "0000:01:00.1 (audio) is a function of the card at 0000:01:00.0 without its GPU",
		"disk":  "0000:03:00.0 is Samsung PM9A1 (144d:a80a, class 010802), and no NVIDIA GPU",
	} {
		assert.Equal(t, want, l.MappingProblem("pve1", id), id)
	}
	_, there := l.Card("pve2", first)
	assert.False(t, there, "the card of another host")
	_, there = l.Card("pve1", at("03:00.0"))
	assert.False(t, there)
	f, there := l.Function("pve1", at("03:00"))
	assert.True(t, there && f.Name == "PM9A1")
	_, there = l.Function("pve1", at("09:00"))
	assert.False(t, there)
	assert.Error(t, Mapping{ID: "card"}.Check())
	assert.NoError(t, Mapping{ID: "card", Devices: []MappedDevice{{}}}.Check())
	assert.Contains(t, MappedDevice{Host: "pve1", Address: first, ID: "10de:2204"}.Line(), "iommugroup=0")
	assert.NotContains(t, MappedDevice{Host: "pve1", Address: first, ID: "10de:2204", IOMMUGroup: -1}.Line(), "iommugroup")
}
