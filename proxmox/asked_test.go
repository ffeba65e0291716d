package proxmox_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
)

// entry is an object of an answer.
type entry = map[string]any

// pending is a VM's configuration as the host tells it.
func pending(config map[string]string) http.HandlerFunc {
	all := []any{}
	for k, v := range config {
		all = append(all, entry{"key": k, "value": v})
	}
	return data(all)
}

// crowd is a host with some of everybody's VMs and containers.
func crowd(more map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	vms := []any{
		entry{"type": "qemu", "vmid": 109, "name": "dhcp", "node": "pve1", "status": "running", "netout": 5},
		entry{"type": "qemu", "vmid": 103, "name": "asleep", "node": "pve1", "status": "stopped", "cpus": 2, "maxmem": 1 << 30, "mem": 0, "tags": "b;a", "lock": "backup"},
		entry{"type": "qemu", "vmid": 104, "name": "dumb", "node": "pve1", "status": "running", "netout": 5},
		entry{"type": "qemu", "vmid": 105, "name": "deaf", "node": "pve1", "status": "running", "netout": 5},
		entry{"type": "qemu", "vmid": 106, "name": "unread", "node": "pve1", "status": "running"},
		entry{"type": "lxc", "vmid": 101, "name": "dns", "node": "pve1", "status": "running", "mem": 1 << 20},
		entry{"type": "lxc", "vmid": 102, "name": "unread too", "node": "pve1", "status": "stopped"},
		entry{"type": "lxc", "vmid": 110, "name": "elsewhere", "node": "pve2", "status": "running"},
		entry{"type": "qemu", "vmid": 100, "name": "tmpl", "node": "pve1", "status": "running", "template": 1},
	}
	const agent = "GET /nodes/pve1/qemu/109/agent/network-get-interfaces"
	out := map[string]http.HandlerFunc{
		"GET /cluster/resources": data(vms), "GET /nodes/pve1/qemu": data(vms),
		"GET /nodes/pve1/network": data([]any{
			entry{"iface": "vmbr1", "type": "OVSBridge", "active": 1, "ovs_ports": "eno3", "mtu": "9000", "bridge_vids": 7, "cidr": "10.9.0.1/24"},
			entry{"iface": "vmbr0", "type": "bridge", "active": "1", "bridge_vlan_aware": 1, "bridge_vids": "2-4094", "bridge_ports": "eno1 eno2", "cidr": "10.0.0.1/24", "gateway": "10.0.0.254"},
			entry{"iface": "vmbr2", "type": "bridge", "cidr": "no address"},
		}),
		"GET /nodes/pve1/lxc/101/config":                        data(entry{"net0": "name=eth0,ip=10.0.0.7/24,ip6=fd00::7/64", "net1": "name=eth1,ip=dhcp", "hostname": "ip=10.0.0.99/24", "memory": 512}),
		"GET /nodes/pve1/lxc/102/config":                        raw(403, "no", ""),
		"GET /nodes/pve1/qemu/109/pending":                      pending(map[string]string{"name": "dhcp", "agent": "1", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "ipconfig0": "ip=10.0.0.9/24,gw=10.0.0.254"}),
		"GET /nodes/pve1/qemu/103/pending":                      pending(map[string]string{"name": "asleep", "agent": "1", "ipconfig0": "ip=10.0.0.3/24,ip6=fd00::3/64,gw=10.0.0.253"}),
		"GET /nodes/pve1/qemu/104/pending":                      pending(map[string]string{"name": "dumb", "ipconfig1": "ip=10.0.0.4/24", "description": "ip=10.0.0.98/24"}),
		"GET /nodes/pve1/qemu/105/pending":                      pending(map[string]string{"name": "deaf", "agent": "1", "ipconfig0": "ip=10.0.0.5/24"}),
		"GET /nodes/pve1/qemu/106/pending":                      raw(403, "no", ""),
		"GET /nodes/pve1/qemu/105/agent/network-get-interfaces": raw(500, "QEMU guest agent is not running", ""),
		agent: data(entry{"result": []any{
			entry{"name": "lo", "ip-addresses": []any{entry{"ip-address": "127.0.0.1"}, entry{"ip-address": "::1"}}},
			entry{"name": "storage", "hardware-address": "bc:24:11:00:00:02", "ip-addresses": []any{entry{"ip-address": "10.10.0.77"}}},
			entry{"name": "eth0", "hardware-address": "bc:24:11:00:00:01", "ip-addresses": []any{entry{"ip-address": "10.0.0.77"}, entry{"ip-address": "fe80::1"}, entry{"ip-address": "odd"}, entry{"ip-address": "fd00::77"}}},
			entry{"name": "eth1"},
		}}),
	}
	for key, answer := range more {
		out[key] = answer
	}
	return out
}

// Who has an address is told by the host's bridges, containers, cloud-init and agents;
// what cannot be read keeps nobody from reading the rest.
func TestAddressesInUse(t *testing.T) {
	h := serve(t, crowd(nil))
	got, err := h.dial(t).Hosts.Addresses(t.Context(), "pve1")
	require.NoError(t, err)
	want := map[netip.Addr]string{}
	for text, who := range map[string]string{
		"10.0.0.1": "host pve1", "10.0.0.254": "the gateway", "10.9.0.1": "host pve1",
		"10.0.0.7": "dns (101 on pve1)", "fd00::7": "dns (101 on pve1)",
		"10.0.0.9": "dhcp (109 on pve1)", "10.0.0.77": "dhcp (109 on pve1)", "fd00::77": "dhcp (109 on pve1)",
		"10.0.0.3": "asleep (103 on pve1)", "fd00::3": "asleep (103 on pve1)", "10.0.0.253": "asleep (103 on pve1)",
		"10.0.0.4": "dumb (104 on pve1)", "10.0.0.5": "deaf (105 on pve1)",
	} {
		want[netip.MustParseAddr(text)] = who
	}
	assert.Equal(t, want, got)
	for _, off := range []string{"103", "104", "100"} {
		assert.Zero(t, h.Count("GET /nodes/pve1/qemu/"+off+"/agent/network-get-interfaces"), "VM %s has no agent that answers", off)
	}
	assert.Zero(t, h.Count("GET /nodes/pve2/lxc/110/config"))
	assert.Zero(t, h.Count("GET /nodes/pve1/qemu/100/pending"), "a template has no address")
	for _, path := range []string{"/nodes/pve1/network", "/cluster/resources"} {
		c := serve(t, crowd(map[string]http.HandlerFunc{"GET " + path: raw(403, "Permission check failed", "")})).dial(t)
		_, err := c.Hosts.Addresses(t.Context(), "pve1")
		assert.ErrorContains(t, err, path)
	}
}

// What guests take of the network is in their configurations: no agent is asked, and what cannot be
// read keeps nobody from reading the rest.
func TestNeighbours(t *testing.T) {
	h := serve(t, crowd(map[string]http.HandlerFunc{
		"GET /nodes/pve1/lxc/101/config":   data(entry{"net0": "name=eth0,hwaddr=BC:24:11:00:00:07,ip=10.0.0.7/24,ip6=fd00::7/64", "net1": "name=eth1,ip=dhcp", "hostname": "ip=10.0.0.99/24"}),
		"GET /nodes/pve2/lxc/110/config":   data(entry{"net0": "name=eth0,ip=10.0.0.10/24"}),
		"GET /nodes/pve1/qemu/104/pending": pending(map[string]string{"name": "dumb", "description": "homelab: homelab-x_104_12345678 10.0.0.4 10.0.0.20-10.0.0.29\nip=10.0.0.98/24"}),
	}))
	all, err := h.dial(t).Hosts.Neighbours(t.Context())
	require.NoError(t, err)
	var got []string
	for _, n := range all {
		got = append(got, fmt.Sprintf("%d %s %v %v %v", n.VMID, n.Host, n.Addresses, n.Claims, n.MACs))
	}
	assert.Equal(t, []string{
		"101 pve1 [10.0.0.7 fd00::7] [] [BC:24:11:00:00:07 ]", "103 pve1 [10.0.0.3 fd00::3] [] []", "104 pve1 [] [10.0.0.4 10.0.0.20-10.0.0.29] []",
		"105 pve1 [10.0.0.5] [] []", "109 pve1 [10.0.0.9] [] [BC:24:11:00:00:01]", "110 pve2 [10.0.0.10] [] []",
	}, got)
	for _, id := range []string{"105", "109"} {
		assert.Zero(t, h.Count("GET /nodes/pve1/qemu/"+id+"/agent/network-get-interfaces"))
	}
	used, err := h.dial(t).Hosts.Addresses(t.Context(), "pve1")
	require.NoError(t, err)
	assert.Equal(t, "dumb (104 on pve1)", used[netip.MustParseAddr("10.0.0.29")])

	_, err = serve(t, crowd(map[string]http.HandlerFunc{"GET /cluster/resources": raw(403, "Permission check failed", "")})).dial(t).Hosts.Neighbours(t.Context())
	require.Error(t, err)
}

// A lookup whose context has ended says so, also when the answer was kept.
func TestKeptAnswersObeyTheirContext(t *testing.T) {
	c := serve(t, map[string]http.HandlerFunc{"GET /nodes/pve1/hardware/pci": data([]any{})}).dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.PCI.GPUs(ctx, "pve1")
	require.NoError(t, err)
	cancel()
	_, err = c.PCI.GPUs(ctx, "pve1")
	require.ErrorIs(t, err, context.Canceled)
}

func TestAgentAddresses(t *testing.T) {
	c := serve(t, crowd(nil)).dial(t)
	got, err := c.Agents.Addresses(t.Context(), &proxmox.VM{Name: "dhcp", Host: "pve1", VMID: 109, NICs: []proxmox.NIC{{MAC: "BC:24:11:00:00:01"}}})
	require.NoError(t, err)
	assert.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.77"), netip.MustParseAddr("fd00::77")}, got)
	_, err = c.Agents.Addresses(t.Context(), &proxmox.VM{Name: "deaf", Host: "pve1", VMID: 105})
	require.ErrorIs(t, err, proxmox.ErrAgentNotRunning)
	assert.ErrorContains(t, err, "addresses of deaf (VM 105 on pve1): ")
}

func TestResidentsAndBridges(t *testing.T) {
	c := serve(t, crowd(nil)).dial(t)
	all, err := c.Hosts.Residents(t.Context())
	require.NoError(t, err)
	names := make([]string, len(all))
	for i, r := range all {
		names[i] = r.Name
	}
	assert.Equal(t, []string{"tmpl", "dns", "unread too", "asleep", "dumb", "deaf", "unread", "dhcp", "elsewhere"}, names, "by VMID")
	assert.Equal(t, proxmox.Resident{Summary: proxmox.Summary{Name: "asleep", VMID: 103, Host: "pve1", Locked: "backup", Tags: []string{"a", "b"}, Cores: 2, Memory: proxmox.GiB}}, all[3])
	assert.False(t, all[0].Running, "a template never runs, whatever a list says")
	assert.True(t, all[0].Template)
	assert.True(t, all[1].Running && all[1].Container)
	assert.Equal(t, proxmox.MiB, all[1].Used)
	bridges, err := c.Hosts.Bridges(t.Context(), "pve1")
	require.NoError(t, err)
	assert.Equal(t, []proxmox.Bridge{
		{Name: "vmbr0", Type: "bridge", Active: true, VLANAware: true, VIDs: "2-4094", Ports: []string{"eno1", "eno2"}, CIDR: "10.0.0.1/24", Gateway: "10.0.0.254"},
		{Name: "vmbr1", Type: "OVSBridge", Active: true, VIDs: "7", Ports: []string{"eno3"}, MTU: 9000, CIDR: "10.9.0.1/24"},
		{Name: "vmbr2", Type: "bridge", Ports: []string{}, CIDR: "no address"},
	}, bridges)
}

// The answers of older and newer releases say the same.
func TestHostStatusOfEveryRelease(t *testing.T) {
	for name, tt := range map[string]struct {
		answer entry
		want   proxmox.HostStatus
	}{
		"new": {entry{
			"pveversion": "pve-manager/9.2.11/14a22df3", "kversion": "Linux 6.8.1-pve #1 SMP", "current-kernel": entry{"release": "6.17.4-1-pve"},
			"cpuinfo": entry{"cpus": 64}, "memory": entry{"total": 1 << 34, "free": 1 << 32, "available": 1 << 33},
		}, proxmox.HostStatus{Version: "9.2.11", Kernel: "6.17.4-1-pve", CPUs: 64, Memory: 16 * proxmox.GiB, Available: 8 * proxmox.GiB}},
		"old": {entry{
			"pveversion": "pve-manager/8.0.3", "kversion": "Linux 6.2.16-3-pve #1 SMP", "memory": entry{"total": "17179869184", "free": 1 << 32},
		}, proxmox.HostStatus{Version: "8.0.3", Kernel: "6.2.16-3-pve", Memory: 16 * proxmox.GiB, Available: 4 * proxmox.GiB}},
		"odd": {entry{"pveversion": "9", "kversion": "Linux"}, proxmox.HostStatus{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := serve(t, map[string]http.HandlerFunc{"GET /nodes/pve1/status": data(tt.answer)}).dial(t).Hosts.Status(t.Context(), "pve1")
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
	_, err := serve(t, nil).dial(t).Hosts.Status(t.Context(), "pve1")
	assert.ErrorContains(t, err, "/nodes/pve1/status")
}

func TestClockAndToken(t *testing.T) {
	self := "GET /access/users/homelab@pve/token/cluster"
	ask := func(answer entry) proxmox.TokenInfo {
		c := serve(t, map[string]http.HandlerFunc{self: data(answer)}).dial(t)
		info, err := c.Token(t.Context())
		require.NoError(t, err)
		assert.Equal(t, tokenID, c.TokenID())
		return info
	}
	assert.Equal(t, proxmox.TokenInfo{PrivilegeSeparate: true}, ask(entry{"expire": 0}), "separate, where Proxmox does not say")
	assert.Equal(t, proxmox.TokenInfo{PrivilegeSeparate: true}, ask(entry{"expire": 0, "privsep": 1}))
	assert.Equal(t, proxmox.TokenInfo{Expires: time.Unix(1, 0)}, ask(entry{"expire": 1, "privsep": 0}))
	c := serve(t, map[string]http.HandlerFunc{"GET /nodes/pve1/time": data(entry{"time": 1795194436, "localtime": 1})}).dial(t)
	now, err := c.Hosts.Clock(t.Context(), "pve1")
	require.NoError(t, err)
	assert.Equal(t, int64(1795194436), now.Unix())
	_, err = c.Hosts.Clock(t.Context(), "pve2")
	require.Error(t, err)
	_, err = c.Token(t.Context())
	assert.Error(t, err)
}

func TestQuorumAndHosts(t *testing.T) {
	for _, tt := range []struct {
		status []any
		want   bool
	}{
		{[]any{entry{"type": "node", "quorate": 0}}, true},
		{[]any{entry{"type": "node"}, entry{"type": "cluster", "quorate": 1}}, true},
		{[]any{entry{"type": "cluster", "quorate": 0}}, false},
	} {
		got, err := serve(t, map[string]http.HandlerFunc{"GET /cluster/status": data(tt.status)}).dial(t).Hosts.Quorate(t.Context())
		require.NoError(t, err)
		assert.Equal(t, tt.want, got)
	}
	hosts, err := serve(t, map[string]http.HandlerFunc{"GET /nodes": data([]any{
		entry{"node": "pve2", "status": "offline"}, entry{"node": "pve1", "status": "online", "maxcpu": 4, "maxmem": 1024, "mem": "512"}, entry{"node": "pve3", "status": "unknown"},
	})}).dial(t).Hosts.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []proxmox.Host{{Name: "pve1", Online: true, CPUs: 4, Memory: proxmox.KiB, MemoryUsed: 512}, {Name: "pve2"}, {Name: "pve3"}}, hosts)
}

// A VMID is free, taken, or nobody knows.
func TestVMIDTaken(t *testing.T) {
	c := serve(t, map[string]http.HandlerFunc{"GET /cluster/nextid": func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("vmid") {
		case "100":
			raw(400, "Parameter verification failed.", `{"errors":{"vmid":"VM 100 already exists"}}`)(w, r)
		case "101":
			data("101")(w, r)
		default:
			raw(403, "no", "")(w, r)
		}
	}}).dial(t)
	taken, err := c.VMs.VMIDTaken(t.Context(), 100)
	require.NoError(t, err)
	assert.True(t, taken)
	taken, err = c.VMs.VMIDTaken(t.Context(), 101)
	require.NoError(t, err)
	assert.False(t, taken)
	_, err = c.VMs.VMIDTaken(t.Context(), 102)
	assert.Error(t, err)
}

// Who may set which tag is the datacenter's to say; where the token may not look, it is
// guessed from what it sees.
func TestTagAccess(t *testing.T) {
	options := entry{"registered-tags": []string{"prod"}, "allowed-tags": []string{"lab"}, "user-tag-access": entry{"user-allow": "list", "user-allow-list": []string{"lab", "x"}}}
	c := serve(t, map[string]http.HandlerFunc{"GET /cluster/options": data(options)}).dial(t)
	access, err := c.TagAccess(t.Context(), true)
	require.NoError(t, err)
	assert.Equal(t, proxmox.TagAccess{Allow: "list", List: []string{"lab", "x"}, Registered: []string{"prod"}, Allowed: []string{"lab"}}, access)
	assert.Equal(t, "pvesh set /cluster/options --user-tag-access 'user-allow=free,user-allow-list=lab;x'", access.AllowCommand())
	assert.Empty(t, access.AllowCommandLoses())
	for audits, want := range map[bool]string{true: "free", false: ""} {
		c := serve(t, map[string]http.HandlerFunc{"GET /cluster/options": data(entry{})}).dial(t)
		access, err := c.TagAccess(t.Context(), audits)
		require.NoError(t, err)
		assert.Equal(t, proxmox.TagAccess{Allow: want}, access)
		assert.Equal(t, "pvesh set /cluster/options --user-tag-access user-allow=free", access.AllowCommand())
		assert.Equal(t, !audits, access.AllowCommandLoses() != "")
	}
	_, err = serve(t, nil).dial(t).TagAccess(t.Context(), true)
	require.Error(t, err)
}

// A path that Proxmox does not mention by itself is asked for, once each.
func TestPermissionsOfPaths(t *testing.T) {
	var asked []string
	c := serve(t, map[string]http.HandlerFunc{"GET /access/permissions": func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Query().Get("path")
		asked = append(asked, path)
		switch path {
		case "":
			data(entry{"/": entry{"Sys.Audit": 1}, "/vms/100": entry{"VM.Audit": 0}})(w, r)
		case "/nodes/pve9":
			raw(500, "no", "")(w, r)
		default:
			data(entry{path: entry{"VM.Config.Disk": 1}})(w, r)
		}
	}}).dial(t)
	got, err := c.Permissions(t.Context(), "/", "/vms", "/vms/100", "/pool/a")
	require.NoError(t, err)
	assert.Equal(t, []string{"", "/pool/a"}, asked)
	assert.Equal(t, proxmox.PermissionTree{"/": {"Sys.Audit": true}, "/vms/100": {"VM.Audit": false}, "/pool/a": {"VM.Config.Disk": true}}, got)
	_, err = c.Permissions(t.Context(), "/nodes/pve9")
	assert.Error(t, err)
}

// What others' VMs name, now or after their next start, is held; one whose configuration
// cannot be read may name anything.
func TestHolders(t *testing.T) {
	mark := marked(104)["tags"]
	vms := []any{
		entry{"type": "qemu", "vmid": 100, "name": "cd", "node": "pve1", "status": "running"},
		entry{"type": "qemu", "vmid": 101, "name": "card", "node": "pve1", "status": "running"},
		entry{"type": "qemu", "vmid": 102, "name": "locked up", "node": "pve1", "status": "stopped"},
		entry{"type": "qemu", "vmid": 103, "name": "gone", "node": "pve1", "status": "stopped"},
		entry{"type": "qemu", "vmid": 104, "name": "ours", "node": "pve1", "status": "stopped", "tags": mark},
		entry{"type": "qemu", "vmid": 105, "name": "copy", "node": "pve1", "status": "stopped", "tags": mark},
		entry{"type": "lxc", "vmid": 106, "name": "box", "node": "pve1", "status": "stopped"},
		entry{"type": "qemu", "vmid": 107, "name": "far", "node": "pve2", "status": "stopped"},
	}
	c := serve(t, map[string]http.HandlerFunc{
		"GET /cluster/resources": data(vms), "GET /nodes/pve1/qemu": data(vms),
		"GET /nodes":                       data([]any{entry{"node": "pve1", "status": "online"}, entry{"node": "pve2", "status": "offline"}}),
		"GET /nodes/pve1/qemu/100/pending": data([]any{entry{"key": "name", "value": "cd"}, entry{"key": "ide2", "value": "local:iso/old.iso,media=cdrom", "pending": "local:iso/new.iso,media=cdrom"}, entry{"key": "net0", "value": "virtio,file=local:iso/no.iso"}}),
		"GET /nodes/pve1/qemu/101/pending": pending(map[string]string{"name": "card", "hostpci3": "mapping=gpus,pcie=1", "scsi0": "vmdata:vm-101-disk-0,size=8G"}),
		"GET /nodes/pve1/qemu/102/pending": raw(403, "no", ""),
		"GET /nodes/pve1/qemu/103/pending": raw(500, "Configuration file 'x' does not exist", ""),
		"GET /nodes/pve1/qemu/104/pending": pending(map[string]string{"name": "ours", "tags": mark, "smbios1": "uuid=0a0b0c0d-0000-4000-8000-000000000000", "ide2": "local:iso/ours.iso,media=cdrom"}),
		"GET /nodes/pve1/qemu/105/pending": pending(map[string]string{"name": "copy", "tags": mark, "smbios1": "uuid=0a0b0c0d-0000-4000-8000-000000000000", "ide2": "local:iso/copied.iso,media=cdrom"}),
	}).dial(t)
	for _, who := range []string{owner, ""} {
		h, err := c.VMs.Holders(t.Context(), who)
		require.NoError(t, err)
		for name, want := range map[string]string{"old.iso": "cd", "new.iso": "cd", "vm-101-disk-0": "card", "copied.iso": "copy", "ours.iso": map[string]string{"": "ours"}[who], "no.iso": ""} {
			by, held := h.File(name)
			assert.Equal(t, want, by.Name, "%s of %q", name, who)
			assert.Equal(t, want != "", held, "%s of %q", name, who)
		}
		by, held := h.Mapping("gpus")
		assert.True(t, held)
		assert.Equal(t, 101, by.VMID)
		_, held = h.Mapping("others")
		assert.False(t, held)
		var silent []int
		for _, s := range h.Unreadable {
			silent = append(silent, s.VMID)
		}
		assert.Equal(t, []int{107, 102}, silent)
		assert.EqualError(t, h.Unreadable[0].Err, "pve2 does not answer: it is offline")
	}
}

// What is not there, and what only looks like it.
func TestByIDAndListed(t *testing.T) {
	config := marked(100, "name", "wk1")
	vms := []any{entry{"type": "qemu", "vmid": 100, "name": "wk1", "node": "pve1", "status": "running", "tags": config["tags"]}, entry{"type": "lxc", "vmid": 101, "name": "box", "node": "pve1"}}
	answers := map[string]http.HandlerFunc{"GET /cluster/resources": data(vms), "GET /nodes/pve1/qemu": data(vms), "GET /nodes/pve1/qemu/100/pending": pending(config)}
	c := serve(t, answers).dial(t)
	vm, err := c.VMs.GetByID(t.Context(), 100)
	require.NoError(t, err)
	assert.True(t, vm.Running)
	for _, none := range []int{101, 102} {
		_, err = c.VMs.GetByID(t.Context(), none)
		require.ErrorIs(t, err, proxmox.ErrNotFound)
	}
	for _, tt := range []struct {
		owner string
		seen  proxmox.Summary
		want  bool
	}{
		{owner, proxmox.Summary{VMID: 100, Name: "wk1"}, true}, {owner, proxmox.Summary{VMID: 100, Name: "wk2"}, false},
		{owner, proxmox.Summary{VMID: 102, Name: "wk1"}, false}, {"homelab-x", proxmox.Summary{VMID: 100, Name: "wk1"}, false},
	} {
		got, err := c.VMs.GetFromSummary(t.Context(), tt.owner, tt.seen)
		require.NoError(t, err)
		assert.Equal(t, tt.want, got != nil, "%+v", tt)
		if got != nil {
			assert.Equal(t, owner, got.Owner)
			assert.False(t, got.Unfinished)
			assert.Empty(t, got.GPUs)
		}
	}
	answers["GET /nodes/pve1/qemu/100/pending"] = raw(403, "Permission check failed (/vms/100, VM.Audit)", "")
	_, err = serve(t, answers).dial(t).VMs.GetFromSummary(t.Context(), owner, proxmox.Summary{VMID: 100, Name: "wk1"})
	require.ErrorContains(t, err, "VM.Audit")
	_, err = serve(t, nil).dial(t).VMs.GetByID(t.Context(), 100)
	assert.ErrorContains(t, err, "/cluster/resources")
}

// A disk of a template's own has to be seen for the clones on it to be believed.
func TestLinkedClones(t *testing.T) {
	content := func(all ...any) http.HandlerFunc { return data(all) }
	own := entry{"volid": "nfs:100/base-100-disk-0.qcow2", "vmid": 100}
	for name, tt := range map[string]struct {
		files, thin http.HandlerFunc
		want        []int
		err         string
	}{
		"none": {content(own, entry{"volid": "nfs:101/vm-101-disk-0.qcow2", "vmid": 101}), content(entry{"volid": "thin:base-100-disk-1", "vmid": "100"}), nil, ""},
		"by path and by parent": {
			content(entry{"volid": "nfs:100/base-100-disk-0.qcow2/104/vm-104-disk-0.qcow2", "vmid": 104}, own, entry{"volid": "nfs:100/base-100-disk-0.qcow2/102/vm-102-disk-0.qcow2", "vmid": 102}),
			content(entry{"volid": "thin:base-100-disk-1", "vmid": 100}, entry{"volid": "thin:vm-103-disk-1", "vmid": 103, "parent": "base-100-disk-1@__base__"}, entry{"volid": "thin:vm-102-disk-1", "vmid": 102, "parent": "base-100-disk-1@__base__"}),
			[]int{102, 103, 104}, "",
		},
		"nothing is shown": {content(), content(), nil, "pve1 shows no disk of tmpl (VM 100 on pve1) on nfs: Proxmox omits it from the list"},
		"no answer":        {raw(403, "no way", ""), content(), nil, "no way"},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, map[string]http.HandlerFunc{
				"GET /nodes/pve1/qemu/100/pending":     pending(map[string]string{"name": "tmpl", "template": "1", "scsi0": "nfs:100/base-100-disk-0.qcow2,size=8G", "scsi1": "thin:base-100-disk-1,size=1G", "ide2": "cds:iso/x.iso,media=cdrom"}),
				"GET /nodes/pve1/storage/nfs/content":  tt.files,
				"GET /nodes/pve1/storage/thin/content": tt.thin,
				"GET /nodes/pve1/qemu/101/pending":     raw(500, "Configuration file 'x' does not exist", ""),
			}).dial(t)
			got, err := c.Templates.LinkedClones(t.Context(), &proxmox.Summary{Host: "pve1", VMID: 100})
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
			got, err = c.Templates.LinkedClones(t.Context(), &proxmox.Summary{Host: "pve1", VMID: 101})
			require.NoError(t, err)
			assert.Empty(t, got)
		})
	}
}

func TestVolumesAndStorages(t *testing.T) {
	var query url.Values
	c := serve(t, map[string]http.HandlerFunc{
		"GET /nodes/pve1/storage/local/content": func(w http.ResponseWriter, r *http.Request) {
			query = r.URL.Query()
			data([]any{entry{"volid": "local:iso/b.iso", "content": "iso", "format": "iso", "size": 7}, entry{"volid": "local:100/vm-100-disk-0.raw", "content": "images", "vmid": "100", "parent": "p"}})(w, r)
		},
		"GET /nodes/pve1/storage": data([]any{entry{"storage": "local", "type": "dir", "content": "vztmpl,iso", "active": 1, "total": 10, "avail": "4"}, entry{"storage": "nfs", "type": "nfs", "content": "import", "shared": 1}}),
	}).dial(t)
	all, err := c.Storages.Volumes(t.Context(), "pve1", "local", "")
	require.NoError(t, err)
	assert.Equal(t, []proxmox.Volume{{ID: "local:100/vm-100-disk-0.raw", Content: "images", VMID: 100, Parent: "p"}, {ID: "local:iso/b.iso", Content: "iso", Format: "iso", Size: 7}}, all)
	assert.Equal(t, "vm-100-disk-0.raw local b.iso", all[0].Name()+" "+all[0].Storage()+" "+all[1].Name())
	assert.Empty(t, query, "of all contents")
	_, err = c.Storages.Volumes(t.Context(), "pve1", "local", "iso")
	require.NoError(t, err)
	assert.Equal(t, "content=iso", query.Encode())
	storages, err := c.Storages.List(t.Context(), "pve1")
	require.NoError(t, err)
	assert.Equal(t, []proxmox.Storage{{Name: "local", Type: "dir", Content: []string{"iso", "vztmpl"}, Active: true, Total: 10, Free: 4}, {Name: "nfs", Type: "nfs", Content: []string{"import"}, Shared: true}}, storages)
}

// A volume that is gone is not an error; a task that deletes one is waited for.
func TestDeleteVolume(t *testing.T) {
	const upid = "UPID:pve1:000003B2:00053DE3:6B007E44:imgdel:local@pve1:homelab@pve!cluster:"
	ended := func(status string) http.HandlerFunc {
		return data([]any{entry{"upid": upid, "status": status, "endtime": 1795194436}})
	}
	for name, tt := range map[string]struct {
		answer, tasks http.HandlerFunc
		want          string
	}{
		"at once":     {data(nil), nil, ""},
		"empty":       {data(""), nil, ""},
		"gone":        {raw(500, "volume 'local:iso/a.iso' does not exist", ""), nil, ""},
		"by a task":   {data(upid), ended("OK"), ""},
		"task fails":  {data(upid), ended("busy"), "imgdel of local@pve1 on pve1 failed: busy"},
		"refused":     {raw(403, "no way", ""), nil, "no way"},
		"an odd task": {data("x"), nil, `task id "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			h := serve(t, map[string]http.HandlerFunc{"DELETE /nodes/pve1/storage/local/content/local:iso/a.iso": tt.answer, "GET /nodes/pve1/tasks": tt.tasks})
			err := h.dial(t).Storages.Delete(t.Context(), "pve1", "local:iso/a.iso")
			if tt.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.want)
			}
		})
	}
	assert.EqualError(t, serve(t, nil).dial(t).Storages.Delete(t.Context(), "pve1", "a.iso"), `volume "a.iso": write storage:path`)
}

// What the host uses itself is found by the names that its interfaces have, and the kinds of its disks.
func TestUses(t *testing.T) {
	h := serve(t, map[string]http.HandlerFunc{
		"GET /nodes/pve1/disks/list": data([]any{
			entry{"devpath": "/dev/nvme0n1", "used": "ZFS"}, entry{"devpath": "/dev/sda", "used": "LVM", "by_id_link": "/dev/disk/by-id/usb-x"},
			entry{"devpath": "/dev/sdb", "used": "ext4", "by_id_link": "/dev/disk/by-id/ata-x"}, entry{"devpath": "/dev/sdc"},
		}),
		"GET /nodes/pve1/network": data([]any{
			entry{"iface": "enP1p5s1f2np0", "type": "eth", "active": 1}, entry{"iface": "enp300s0", "type": "eth", "autostart": 1}, entry{"iface": "enp1s32", "type": "eth", "cidr": "10.0.0.1/24"},
			entry{"iface": "enp2s0f8", "type": "eth", "cidr6": "fd00::1/64"}, entry{"iface": "eno1", "type": "eth", "altnames": []string{"enp3s0"}}, entry{"iface": "enp4s0", "type": "eth"},
			entry{"iface": "enp5s0v1", "type": "eth"}, entry{"iface": "eno2", "type": "eth"}, entry{"iface": "eno3", "type": "eth"}, entry{"iface": "eno4", "type": "eth"},
			entry{"iface": "vmbr0", "type": "bridge", "active": 1, "bridge_ports": "enp3s0 enp5s0v1"}, entry{"iface": "vmbr1", "type": "OVSBridge", "ovs_ports": "eno2"},
			entry{"iface": "bond0", "type": "bond", "slaves": "eno3"}, entry{"iface": "bond1", "type": "OVSBond", "ovs_bonds": "eno4"},
		}),
	})
	all, err := h.dial(t).PCI.Uses(t.Context(), "pve1")
	require.NoError(t, err)
	var got []string
	for _, u := range all {
		line := u.What + " " + u.Classes[0]
		if u.At != nil {
			line += " " + u.At.String()
		}
		got = append(got, line)
	}
	assert.Equal(t, []string{
		"the disk /dev/nvme0n1 (ZFS) 0108", "the disk /dev/sda (LVM) 0c03", "the disk /dev/sdb (ext4) 0100",
		"the network interface enP1p5s1f2np0 02 0001:05:01.2", "the network interface enp300s0 02", "the network interface enp1s32 02", "the network interface enp2s0f8 02",
		"the network interface eno1 02 0000:03:00.0", "the network interface enp5s0v1 02", "the network interface eno2 02", "the network interface eno3 02", "the network interface eno4 02",
	}, got)
	for _, path := range []string{"/nodes/pve1/disks/list", "/nodes/pve1/network"} {
		answers := map[string]http.HandlerFunc{"GET /nodes/pve1/disks/list": data([]any{}), "GET /nodes/pve1/network": data([]any{})}
		answers["GET "+path] = raw(403, "Permission check failed", "")
		_, err := serve(t, answers).dial(t).PCI.Uses(t.Context(), "pve1")
		assert.ErrorContains(t, err, path)
	}
}

func TestPortsAndLeases(t *testing.T) {
	h := serve(t, map[string]http.HandlerFunc{
		"GET /nodes/pve1/network": data([]any{
			entry{"iface": "vmbr1.7", "vlan-raw-device": "vmbr1", "vlan-id": "7", "cidr": "10.7.0.1/24", "gateway": "10.7.0.254"}, entry{"iface": "in0", "ovs_bridge": "vmbr0", "ovs_tag": 5, "cidr": "10.5.0.1/24"},
			entry{"iface": "vmbr1.8", "vlan-raw-device": "vmbr1", "vlan-id": 8}, entry{"iface": "eno1", "cidr": "10.0.0.1/24"},
		}),
		"GET /cluster/sdn/ipams/pve/status": data([]any{
			entry{"ip": "10.1.0.1", "vnet": "lab", "gateway": 1}, entry{"ip": "10.1.0.2", "hostname": "a", "vmid": "100"}, entry{"ip": "10.1.0.3", "vmid": 101}, entry{"ip": "10.1.0.4", "hostname": "b"},
			entry{"ip": "10.1.0.5", "mac": "BC:24:11:00:00:01"}, entry{"ip": "10.1.0.6"}, entry{"ip": ""},
		}),
	})
	c := h.dial(t)
	ports, err := c.Hosts.Ports(t.Context(), "pve1")
	require.NoError(t, err)
	assert.Equal(t, []proxmox.Port{{Bridge: "vmbr0", VLAN: 5, CIDR: "10.5.0.1/24"}, {Bridge: "vmbr1", VLAN: 7, CIDR: "10.7.0.1/24", Gateway: "10.7.0.254"}}, ports)
	leases, err := c.Hosts.Leases(t.Context())
	require.NoError(t, err)
	var owners []string
	for _, l := range leases {
		owners = append(owners, l.Addr.String()+" "+l.Owner())
	}
	assert.Equal(t, []string{"10.1.0.1 the gateway of VNet lab", "10.1.0.2 a (VM 100)", "10.1.0.3 VM 101", "10.1.0.4 b", "10.1.0.5 BC:24:11:00:00:01", "10.1.0.6 somebody"}, owners)
	for status, fails := range map[int]bool{403: false, 500: true} {
		_, err := serve(t, map[string]http.HandlerFunc{"GET /cluster/sdn/ipams/pve/status": raw(status, "no", "")}).dial(t).Hosts.Leases(t.Context())
		assert.Equal(t, fails, err != nil, "%d: %v", status, err)
	}
}

func TestUSBDevices(t *testing.T) {
	stick, port, both := proxmox.USBDevice{ID: "10c4:ea60"}, proxmox.USBDevice{Port: "1-2"}, proxmox.USBDevice{ID: "10c4:ea60", Port: "1-3"}
	assert.Equal(t, "10c4:ea60, port 1-2, 10c4:ea60 in port 1-3", stick.String()+", "+port.String()+", "+both.String())
	for _, tt := range []struct {
		a, b proxmox.USBDevice
		want bool
	}{{stick, stick, true}, {stick, port, true}, {stick, both, true}, {port, both, false}, {both, both, true}, {stick, proxmox.USBDevice{ID: "1:2"}, false}, {both, proxmox.USBDevice{ID: "1:2", Port: "1-3"}, true}} {
		assert.Equal(t, tt.want, tt.a.MayBe(tt.b), "%v and %v", tt.a, tt.b)
		assert.Equal(t, tt.want, tt.b.MayBe(tt.a), "%v and %v", tt.b, tt.a)
	}
	m := proxmox.USBMapping{ID: "key", Host: "pve1", Description: "x", Device: both}
	state := func(d ...proxmox.USBDevice) *proxmox.USBMappingState {
		return &proxmox.USBMappingState{ID: "key", Description: "x", Devices: map[string][]proxmox.USBDevice{"pve1": d, "pve2": {stick}}}
	}
	assert.False(t, m.Diff(nil).Empty())
	assert.True(t, m.Diff(state(both)).Empty())
	assert.False(t, m.Diff(state(stick)).Empty())
	assert.False(t, m.Diff(state(both, stick)).Empty())
	m.Description = "y"
	assert.False(t, m.Diff(state(both)).Empty())
}
