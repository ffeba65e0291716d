package draft_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/draft"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// some are n hosts, each with an address in 10.0.0.0/24 and room for everything.
func some(n int) draft.Inventory {
	f := draft.Inventory{Version: "9.0", Used: map[netip.Addr]string{}}
	for _, name := range []string{"pve1", "pve2", "pve3"}[:n] {
		f.Hosts = append(f.Hosts, draft.Host{
			Name: name, CPUs: 64, Memory: 512 * proxmox.GiB,
			Bridges: []proxmox.Bridge{{Name: "vmbr0", Type: "bridge", Ports: []string{"eno1"}, CIDR: "10.0.0.2/24", Gateway: "10.0.0.254"}},
			Storages: []proxmox.Storage{
				{Name: "local", Type: "dir", Active: true, Enabled: true, Content: []string{"iso", "import"}},
				{Name: "fast", Type: "lvmthin", Active: true, Enabled: true, Content: []string{"images"}, Free: 1000 * proxmox.GiB},
			},
		})
	}
	return f
}

func TestProposedNetwork(t *testing.T) {
	bridge := func(f *draft.Inventory) *proxmox.Bridge { return &f.Hosts[0].Bridges[0] }
	for name, tt := range map[string]struct {
		hosts  int
		change func(*draft.Inventory)
		want   string // bridge, VLAN, network, gateway, first address, servers
	}{
		"one":          {1, func(*draft.Inventory) {}, "vmbr0 0 10.0.0.0/24 10.0.0.254 10.0.0.11 1"},
		"two":          {2, func(*draft.Inventory) {}, "vmbr0 0 10.0.0.0/24 10.0.0.254 10.0.0.11 1"},
		"three":        {3, func(*draft.Inventory) {}, "vmbr0 0 10.0.0.0/24 10.0.0.254 10.0.0.11 3"},
		"none":         {0, func(*draft.Inventory) {}, "vmbr0 0 invalid Prefix invalid IP invalid IP 1"},
		"another name": {1, func(f *draft.Inventory) { bridge(f).Name = "a bridge" }, "vmbr0 0 invalid Prefix invalid IP invalid IP 1"},
		"IPv6":         {1, func(f *draft.Inventory) { bridge(f).CIDR = "fd00::2/64" }, "vmbr0 0 invalid Prefix invalid IP invalid IP 1"},
		"a VLAN":       {1, func(f *draft.Inventory) { f.Hosts[0].VLANs = map[string]int{"vmbr0": 7} }, "vmbr0 7 10.0.0.0/24 10.0.0.254 10.0.0.11 1"},
		"no gateway":   {1, func(f *draft.Inventory) { bridge(f).Gateway = "" }, "vmbr0 0 10.0.0.0/24 10.0.0.1 10.0.0.11 1"},
		"no gateway, the first address is used": {1, func(f *draft.Inventory) { bridge(f).Gateway, f.Used[netip.MustParseAddr("10.0.0.1")] = "", "a NAS" },
			"vmbr0 0 10.0.0.0/24 invalid IP 10.0.0.11 1"},
		"a gateway elsewhere":     {1, func(f *draft.Inventory) { bridge(f).Gateway = "10.9.0.1" }, "vmbr0 0 10.0.0.0/24 10.0.0.1 10.0.0.11 1"},
		"NAT":                     {1, func(f *draft.Inventory) { bridge(f).Gateway, bridge(f).Ports = "", nil }, "vmbr0 0 10.0.0.0/24 10.0.0.2 10.0.0.11 1"},
		"small":                   {1, func(f *draft.Inventory) { bridge(f).CIDR = "10.0.0.249/29" }, "vmbr0 0 10.0.0.248/29 10.0.0.254 10.0.0.250 1"},
		"a gap that is too small": {1, func(f *draft.Inventory) { f.Used[netip.MustParseAddr("10.0.0.12")] = "x" }, "vmbr0 0 10.0.0.0/24 10.0.0.254 10.0.0.13 1"},
		"a gap that is enough":    {1, func(f *draft.Inventory) { f.Used[netip.MustParseAddr("10.0.0.13")] = "x" }, "vmbr0 0 10.0.0.0/24 10.0.0.254 10.0.0.11 1"},
		"full": {1, func(f *draft.Inventory) {
			for a := netip.MustParseAddr("10.0.0.1"); a.Less(netip.MustParseAddr("10.0.0.253")); a = a.Next() {
				f.Used[a] = "x"
			}
		}, "vmbr0 0 10.0.0.0/24 10.0.0.254 10.0.0.11 1"},
		"the bridge with an address": {1, func(f *draft.Inventory) {
			f.Hosts[0].Bridges = append(f.Hosts[0].Bridges, proxmox.Bridge{Name: "vmbr1", Type: "bridge", Ports: []string{"eno2"}, CIDR: "10.1.0.2/24"})
			bridge(f).CIDR, bridge(f).Gateway = "", ""
		}, "vmbr1 0 10.1.0.0/24 10.1.0.1 10.1.0.11 1"},
		"the bridge with the gateway": {1, func(f *draft.Inventory) {
			f.Hosts[0].Bridges = append(f.Hosts[0].Bridges, proxmox.Bridge{Name: "vmbr1", Type: "bridge", Ports: []string{"eno2"}, CIDR: "10.1.0.2/24", Gateway: "10.1.0.1"})
			bridge(f).Gateway = ""
		}, "vmbr1 0 10.1.0.0/24 10.1.0.1 10.1.0.11 1"},
		"rather NAT than a provider's": {1, func(f *draft.Inventory) {
			f.Hosts[0].Bridges = append(f.Hosts[0].Bridges, proxmox.Bridge{Name: "vmbr1", Type: "bridge", CIDR: "10.1.0.1/24"})
			bridge(f).CIDR, bridge(f).Gateway = "198.51.100.2/24", "198.51.100.1"
		}, "vmbr1 0 10.1.0.0/24 10.1.0.1 10.1.0.11 1"},
	} {
		f := some(tt.hosts)
		tt.change(&f)
		a := f.Defaults()
		assert.Equal(t, tt.want, fmt.Sprint(a.Bridge, " ", a.VLAN, " ", a.Prefix, " ", a.Gateway, " ", a.First, " ", a.Servers), name)
	}
}

// Each address of the API that is taken, as the file has it.
func TestEndpoints(t *testing.T) {
	f := some(1)
	for text, want := range map[string]string{
		"10.0.0.5": "10.0.0.5:8006", "pve1": "pve1:8006", "pve.example.org:1": "pve.example.org:1", "https://pve.example.org:65535/api2/json/": "pve.example.org:65535",
		"fd00::5": "[fd00::5]:8006", "https://[::1]:9/": "[::1]:9",
	} {
		a := answered(f)
		a.Endpoint = text
		file, err := draft.Render(f, a)
		require.NoError(t, err, text)
		assert.Contains(t, strings.ReplaceAll(file, "\"", ""), "endpoint: https://"+want+"\n", text)
	}
	for _, text := range []string{
		"", " pve1", "a@b", "http://x", "https://", "https://x?y", "https://x#y", "https://x/y", "x:0", "x:65536", "x:y", "-a", "a..b", strings.Repeat("a.", 127) + "a",
	} {
		assert.ErrorContains(t, draft.CheckEndpoint(text), "endpoint \""+text+"\": write lab, or", text)
	}
}

func TestNumbers(t *testing.T) {
	for n := -1; n <= 18; n++ {
		assert.Equal(t, n == 1 || n == 3 || n == 5 || n == 7, draft.CheckServers(n) == nil, "%d servers", n)
		assert.Equal(t, n >= 0 && n <= 16, draft.CheckGPUs(n) == nil, "%d GPUs", n)
	}
	f := some(1)
	for text, fits := range map[string]bool{"10.0.0.0/8": true, "10.0.0.248/29": true, "10.0.0.0/7": false, "10.0.0.252/30": false, "10.0.0.1/24": false, "fd00::/24": false} {
		a := answered(f)
		a.Prefix = netip.MustParsePrefix(text)
		a.Gateway, a.First = a.Prefix.Addr().Next(), a.Prefix.Addr().Next().Next()
		if err := a.Check(f); fits {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, "from /8 to /29", text)
		}
	}
	a := answered(f)
	a.Gateway, a.First = netip.Addr{}, netip.Addr{}
	require.EqualError(t, a.Check(f), "the gateway is not known: say which it is (-gateway)\nthe first address is not known: say which it is (-first)")
	for _, r := range "\x00\x1f\x7f\u0085\u009f\u2028\u2029\ufeff\ufffd \u00a0é" {
		a := answered(f)
		a.Secret = "file:x" + string(r) + "y"
		assert.Equal(t, strings.ContainsRune(" \u00a0é", r), a.Check(f) == nil, "%U", r)
	}
	for at, fits := range map[string]bool{"9.255.255.255": false, "10.0.0.0": false, "10.0.0.1": true, "10.0.0.254": true, "10.0.0.255": false, "10.0.1.1": false} {
		assert.Equal(t, fits, draft.CheckInside("x", netip.MustParsePrefix("10.0.0.0/24"), netip.MustParseAddr(at)) == nil, at)
	}
	require.ErrorContains(t, answered(some(1)).Check(some(0)), "there is no host")
	a = draft.Answers{Bridge: "vmbr9", VLAN: 7, Prefix: answered(f).Prefix, Gateway: answered(f).Gateway, First: answered(f).First}
	assert.Equal(t, draft.Answers{Bridge: "vmbr9"}, f.Readdress(a), "nothing is known of another bridge")
}

// What cannot be read is an error: a cluster is planned on hosts that are known. Only GPUs may be missing.
func TestDiscoverWithoutAnAnswer(t *testing.T) {
	look := func(t *testing.T, rule *pvesim.Rule) (draft.Inventory, []pvesim.Request, error) {
		sim := pvesim.New(pvesim.OneGPU(), pvesim.Options{})
		defer sim.Close()
		id, value := sim.Token()
		c, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client()})
		require.NoError(t, err)
		sim.ForgetRequests()
		if rule != nil {
			sim.Fail(*rule)
		}
		f, err := draft.Discover(t.Context(), c)
		return f, sim.Requests(), err
	}
	synctest.Test(t, func(t *testing.T) {
		_, all, err := look(t, nil)
		require.NoError(t, err)
		for _, r := range all {
			_, _, err := look(t, &pvesim.Rule{Path: "^" + regexp.QuoteMeta(r.Path) + "$", Times: -1, Status: 400, Message: "broken"})
			assert.ErrorContains(t, err, "broken", r.Path)
		}
		f, _, err := look(t, &pvesim.Rule{Path: ".*/hardware/pci", Times: -1, Status: http.StatusForbidden, Message: "Permission check failed"})
		require.NoError(t, err)
		assert.Contains(t, strings.Join(draft.Warnings(f, answered(f)), "\n"), "may not see the PCI devices of pve1")
	})
}

// Disks go where they cost least: on the host, without space for what is not written, with the most room.
func TestBestStorage(t *testing.T) {
	free := func(name, kind string, gib proxmox.Size, shared bool) proxmox.Storage {
		return proxmox.Storage{Name: name, Type: kind, Shared: shared, Active: true, Enabled: true, Content: []string{"images", "iso", "import"}, Free: gib * proxmox.GiB}
	}
	for want, all := range map[string][]proxmox.Storage{
		"thin":  {free("nas", "nfs", 9000, true), free("dir", "dir", 5000, false), free("thin", "lvmthin", 50, false)},
		"large": {free("thin", "lvmthin", 50, false), free("large", "zfspool", 60, false)},
		"dir":   {free("nas", "nfs", 9000, true), free("dir", "dir", 40, false), free("thin", "lvmthin", 39, false)},
		"nas":   {free("nas", "nfs", 41, true), free("dir", "dir", 39, false)},
	} {
		f := some(1)
		f.Hosts[0].Storages = all
		file, err := draft.Render(f, answered(f))
		require.NoError(t, err)
		assert.Contains(t, file, "\n  storage: "+want+" # of disks", want)
	}
	f := some(1)
	f.Hosts[0].Storages = nil
	assert.Contains(t, strings.Join(draft.Warnings(f, answered(f)), "\n"), "pve1 shows no storage for disks")
}

// What is found and answered decides these lines.
func TestLines(t *testing.T) {
	gpus := func(models ...string) func(*draft.Inventory, *draft.Answers) {
		return func(f *draft.Inventory, _ *draft.Answers) {
			for i, m := range models {
				f.Hosts[0].GPUs = append(f.Hosts[0].GPUs, draft.GPU{Address: fmt.Sprintf("0000:%02x:00", i+1), Model: m})
			}
		}
	}
	used := func(n int) func(*draft.Inventory, *draft.Answers) {
		return func(f *draft.Inventory, _ *draft.Answers) {
			for i := range n {
				f.Used[netip.AddrFrom4([4]byte{10, 0, 0, byte(100 + i)})] = "x"
			}
		}
	}
	free := func(n proxmox.Size) func(*draft.Inventory, *draft.Answers) {
		return func(f *draft.Inventory, _ *draft.Answers) { f.Hosts[0].Storages[1].Free = n * proxmox.GiB }
	}
	for name, tt := range map[string]struct {
		change func(*draft.Inventory, *draft.Answers)
		has    []string
		hasNot string
	}{
		"insecure":      {func(_ *draft.Inventory, a *draft.Answers) { a.Insecure, a.Fingerprint = true, "" }, []string{"  insecure: true #"}, "fingerprint: \""},
		"a trusted one": {func(_ *draft.Inventory, a *draft.Answers) { a.Fingerprint = "" }, nil, "insecure"},
		"the lab":       {func(_ *draft.Inventory, a *draft.Answers) { a.Endpoint, a.TokenID = "lab", "" }, []string{"  endpoint: lab # simulated"}, "token"},
		"a key":         {func(_ *draft.Inventory, a *draft.Answers) { a.PublicKey = "choose_test.go" }, []string{"\nssh:\n  publicKeys: [choose_test.go] #"}, ""},
		"a word":        {func(_ *draft.Inventory, a *draft.Answers) { a.Name = "yes" }, []string{"\nname: \"yes\"\n"}, ""},
		"12 used":       {used(12), []string{"10.0.0.111 (x)."}, "more."},
		"13 used":       {used(13), []string{"10.0.0.111 (x), and 1 more."}, "10.0.0.112"},
		"no GPU":        {gpus(), []string{"1 server and 1 worker without a GPU", "\n  wk: # wk1\n"}, "gpus: 1"},
		"3 GPUs":        {gpus("A", "A", "A"), []string{"1 server and 3 workers with 3 GPUs in all", "\n  gpu: # gpu1 to gpu3\n    count: 3\n", "\n    gpus: 1 #", "Free on pve1: A at 0000:01:00, 0000:02:00, 0000:03:00."}, "Not used"},
		"4 GPUs":        {gpus("A", "A", "A", "A"), []string{"    count: 2\n", "\n    gpus: 2 #"}, "Not used"},
		"3 in pairs": {func(f *draft.Inventory, a *draft.Answers) { gpus("A", "A", "A")(f, a); a.GPUsPerWorker = 2 },
			[]string{"- 1 of 3 A on pve1: workers have 2 each", "\n    gpus: 2 #"}, ""},
		"of two kinds": {gpus("A", "B", "A", "\x01"), []string{"- 1 cards on pve1 that are called \"\\x01\": name them by pci:", "  gpu-a: # gpu-a1\n", "  gpu-b: # gpu-b1\n", "gpus: {count: 2, model: A}", "gpus: {count: 1, model: B}", "Free on pve1: A at 0000:01:00, 0000:03:00."}, "gpu-c"},
		"a taken one": {func(f *draft.Inventory, _ *draft.Answers) {
			f.Hosts[0].GPUs = []draft.GPU{{"0000:41:00", "A", "VM 7 has it"}}
		}, []string{"- 0000:41:00 on pve1 (A): VM 7 has it", "  wk:"}, "gpus: 1"},
		"room for homes":          {free(300), []string{"nfs: {vm: {address: 10.0.0.13, size: 50GiB}}"}, "nas.lab.example:/export/k3s}"},
		"much room for homes":     {free(2000), []string{"size: 500GiB}}"}, ""},
		"little room for homes":   {free(280), []string{"storage: {nfs: nas.lab.example:/export/k3s}"}, "{vm:"},
		"little memory for homes": {func(f *draft.Inventory, _ *draft.Answers) { f.Hosts[0].Memory = 28 * proxmox.GiB }, []string{"storage: {nfs: nas"}, "{vm:"},
		"another host":            {func(f *draft.Inventory, _ *draft.Answers) { f.Hosts = some(2).Hosts; f.Hosts[1].Bridges = nil }, []string{"- host pve2 has no bridge vmbr0"}, "pve2:"},
		"an idle host":            {func(f *draft.Inventory, _ *draft.Answers) { f.Hosts = some(2).Hosts }, nil, "pve2"},
		"a second bridge": {func(f *draft.Inventory, _ *draft.Answers) {
			f.Hosts[0].Bridges = append(f.Hosts[0].Bridges, proxmox.Bridge{Name: "vmbr1", Type: "bridge", Ports: []string{"bond0"}, MTU: 9000, CIDR: "10.1.0.2/24"})
			f.Hosts[0].VLANs = map[string]int{"vmbr1": 7}
		}, []string{"\n  # bridge: vmbr1 # over bond0, MTU 9000, which its cards get, 10.1.0.2/24\n", "#   vmbr1: {bridge: vmbr1, vlan: 7, prefix: 10.1.0.0/24, addresses: [10.1.0.11]}", "addresses: [10.1.0.12]}"}, "  vlan: "},
		"a device": {func(f *draft.Inventory, _ *draft.Answers) {
			f.Hosts[0].Devices = []draft.Device{{"usb", "10c4:ea60", 1, "a stick"}, {"pci", "tpu", 1, "a chip"}}
		},
			[]string{"\n    #   device1: {usb: \"10c4:ea60\"} # a stick\n    #   tpu: {pci: tpu} # a chip\n"}, ""},
	} {
		f := some(1)
		a := answered(f)
		tt.change(&f, &a)
		file, err := draft.Render(f, a)
		require.NoError(t, err, name)
		for _, want := range tt.has {
			assert.Contains(t, file, want, name)
		}
		if tt.hasNot != "" {
			assert.NotContains(t, file, tt.hasNot, name)
		}
	}
	for name, fits := range map[string]bool{"pve-1": true, "1pve": true, "-pve": false, "pve-": false, "Pve": false, strings.Repeat("p", 63): true, strings.Repeat("p", 64): false} {
		f := some(1)
		f.Hosts[0].Name = name
		assert.Equal(t, fits, answered(f).Check(f) == nil, name)
	}
}
