package record

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// machines are all VMs that can be seen. Containers are not simulated.
func (r *reader) machines(ctx context.Context) []pvesim.VM {
	var out []pvesim.VM
	for _, e := range r.rows(ctx, "/cluster/resources", "id", url.Values{"type": {"vm"}}) {
		if e.text("type") != "qemu" {
			continue
		}
		v := pvesim.VM{ID: int(e.number("vmid")), Node: e.text("node"), Name: e.text("name"), Pool: e.text("pool"), Running: e.text("status") == "running"}
		var config entry
		if r.optional(ctx, "/nodes/"+v.Node+"/qemu/"+strconv.Itoa(v.ID)+"/config", nil, &config) {
			v.Name = config.text("name") // lists have "VM 100" for one that has none
			v.Config = r.configuration(config)
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b pvesim.VM) int { return a.ID - b.ID })
	return out
}

// leftOut are options that hold secrets, or may, or are of this moment alone.
func leftOut() []string {
	return []string{"digest", "name", "cipassword", "args", "hookscript", "lock", "parent", "snapshots", "snaptime", "runningmachine", "runningcpu", "vmstate"}
}

func (r *reader) configuration(config entry) map[string]string {
	out := map[string]string{}
	for k := range config {
		if !slices.Contains(leftOut(), k) {
			out[k] = config.text(k)
		}
	}
	if !r.o.Descriptions {
		delete(out, "description")
	}
	if keys, there := out["sshkeys"]; there {
		out["sshkeys"] = withoutComments(keys)
	}
	return out
}

// withoutComments drops from SSH keys what follows type and key: names of people
// and machines. Keys with options before them are dropped as a whole. The list is
// URL-encoded, as Proxmox has it.
func withoutComments(encoded string) string {
	text, err := url.PathUnescape(encoded)
	if err != nil {
		return ""
	}
	var keys []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && (strings.HasPrefix(fields[0], "ssh-") || strings.HasPrefix(fields[0], "ecdsa-") || strings.HasPrefix(fields[0], "sk-")) {
			keys = append(keys, fields[0]+" "+fields[1])
		}
	}
	return strings.ReplaceAll(url.QueryEscape(strings.Join(keys, "\n")), "+", "%20")
}
