package proxmox_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// effectSample is a change of one thing, as Proxmox's API takes it.
type effectSample struct {
	key   string
	value func(old string) string
	// anyway: Proxmox writes it at once, though it takes a restart to be in effect.
	anyway bool
}

func samples() map[string]effectSample {
	to := func(value string) func(string) string { return func(string) string { return value } }
	add := func(option string) func(string) string { return func(old string) string { return old + "," + option } }
	swap := func(old, with string) func(string) string {
		return func(s string) string { return strings.ReplaceAll(s, old, with) }
	}
	return map[string]effectSample{
		"tags": {key: "tags", value: add("gold")}, "description": {key: "description", value: to("other")},
		"address that others see": {key: "ipconfig0", value: to("ip=192.0.2.9/24")},
		"protection":              {key: "protection", value: to("1")},
		"start with the host":     {key: "onboot", value: to("0")}, "boot order": {key: "startup", value: to("order=3")},
		"interface: a new one":                {key: "net1", value: to("virtio,bridge=vmbr0")},
		"interface: bridge, VLAN, firewall":   {key: "net0", value: add("firewall=1")},
		"interface: MAC, MTU, queues":         {key: "net0", value: swap("queues=4", "queues=8"), anyway: true},
		"disk: a new one":                     {key: "scsi2", value: to("vmdata:8,serial=new")},
		"disk: not wanted any more":           {key: "scsi1", value: to("")},
		"disk: ssd, discard, iothread, cache": {key: "scsi0", value: add("cache=writeback")},
		"disk: backup, replicate":             {key: "scsi0", value: add("backup=0,replicate=0")},
		"CPU weight and limit":                {key: "cpulimit", value: to("2.5")},
		"cores":                               {key: "cores", value: to("8")},
		"sockets":                             {key: "sockets", value: to("2")},
		"memory":                              {key: "memory", value: to("8192")},
		"CPU type":                            {key: "cpu", value: to("x86-64-v3")},
		"NUMA":                                {key: "numa", value: to("1")},
		"NUMA nodes":                          {key: "numa0", value: to("cpus=0-3,hostnodes=0,memory=16384,policy=bind")},
		"balloon":                             {key: "balloon", value: to("1024")},
		"guest agent's channel":               {key: "agent", value: to("0")},
		"machine type":                        {key: "machine", value: to("pc")},
		"serial console":                      {key: "serial0", value: to("")},
		"TPM":                                 {key: "tpmstate0", value: to("vmdata:1,version=v2.0")},
		"firmware's variables":                {key: "efidisk0", value: to("vmdata:0,efitype=4m")},
		"USB device":                          {key: "usb0", value: to("mapping=stick")},
		"passed-through device":               {key: "hostpci0", value: to("mapping=card,pcie=1")},
	}
}

// What the table says of a running VM is what Proxmox does, key by key: what is in
// effect at once is written, and what wants a restart is pending.
func TestRulesAreProxmoxs(t *testing.T) {
	all := samples()
	for _, rule := range proxmox.Rules() {
		sample, found := all[rule.Thing]
		delete(all, rule.Thing)
		if !found {
			continue
		}
		t.Run(rule.Thing, func(t *testing.T) {
			model := pvesim.EightA100()
			model.Hosts[0].USB = []pvesim.USBDevice{{Port: "1-2", ID: "10c4:ea60"}}
			model.Mappings = append(model.Mappings, pvesim.PCIMapping{ID: "stick", USB: true, Map: []string{"node=pve1,id=10c4:ea60"}})
			model.Users = append(model.Users, pvesim.User{ID: "root@pam", Password: rootPassword})
			bubble(t, model, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
				root := login(t, sim)
				template(t, c)
				spec := scratchNode(t, c)
				require.NoError(t, ensure(t.Context(), c, spec))
				vm, err := c.VMs.Get(t.Context(), owner, spec.Name)
				require.NoError(t, err)
				before := entryOf(t, root, sim, vm, sample.key)
				form := url.Values{sample.key: {sample.value(before.Value)}}
				if form.Get(sample.key) == "" {
					form = url.Values{"delete": {sample.key}}
				}
				status, body := root.ask(t, sim, http.MethodPut, fmt.Sprintf("/nodes/pve1/qemu/%d/config", vm.VMID), form)
				require.Equal(t, http.StatusOK, status, "%s", body)
				after := entryOf(t, root, sim, vm, sample.key)
				waits := after.Pending != nil || after.Delete != 0
				assert.Equal(t, rule.Effect == converge.Restart && !sample.anyway, waits, "before %+v, after %+v", before, after)
				if !waits {
					assert.NotEqual(t, before, after)
				}
			})
		})
	}
	assert.Empty(t, all, "samples that the table has no row for")
}

type configEntry struct {
	Key     string  `json:"key"`
	Value   string  `json:"-"`
	Raw     any     `json:"value"`
	Pending any     `json:"pending"`
	Delete  float64 `json:"delete"`
}

func entryOf(t *testing.T, root rootTicket, sim *pvesim.Sim, vm *proxmox.VM, key string) configEntry {
	_, body := root.ask(t, sim, http.MethodGet, fmt.Sprintf("/nodes/pve1/qemu/%d/pending", vm.VMID), nil)
	var answer struct{ Data []configEntry }
	require.NoError(t, json.Unmarshal(body, &answer))
	for _, e := range answer.Data {
		if e.Key == key {
			if e.Raw != nil {
				e.Value = fmt.Sprint(e.Raw)
			}
			return e
		}
	}
	return configEntry{}
}

const rootPassword = "correct horse"

// rootTicket is what root@pam gets for its password: it may set everything.
type rootTicket struct{ Ticket, CSRFPreventionToken string }

func (root rootTicket) sign(r *http.Request, sim *pvesim.Sim) {
	if root.Ticket == "" && r.URL.Path != "/api2/json/access/ticket" { // then it is the token's
		id, value := sim.Token()
		r.Header.Set("Authorization", "PVEAPIToken="+id+"="+value)
		return
	}
	r.AddCookie(&http.Cookie{Name: "PVEAuthCookie", Value: root.Ticket})
	r.Header.Set("CSRFPreventionToken", root.CSRFPreventionToken)
}

func login(t *testing.T, sim *pvesim.Sim) rootTicket {
	_, body := rootTicket{}.ask(t, sim, http.MethodPost, "/access/ticket", url.Values{"username": {"root@pam"}, "password": {rootPassword}})
	var answer struct{ Data rootTicket }
	require.NoError(t, json.Unmarshal(body, &answer))
	return answer.Data
}

// ask is a request without our client.
func (root rootTicket) ask(t *testing.T, sim *pvesim.Sim, method, path string, form url.Values) (status int, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://pve1:8006/api2/json"+path, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	if len(form) > 0 {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	root.sign(req, sim)
	res, err := sim.Client().Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, body
}
