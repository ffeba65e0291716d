package platform

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/jupyterhub"
)

// profilesFit compares each profile with the nodes' allocatable resources, not with their
// capacity.
func (c checker) profilesFit() {
	h := c.spec.Platform.Hub
	c.chartValues()
	fit := Fit(c.spec)
	for _, row := range fit.Rows {
		p := h.Profile(row.Profile)
		_, there := offer.Instances(c.spec, *p)
		if row.Total > 0 || p.Pool != "" && !c.spec.HasPool(p.Pool) || p.MIG != "" && !there { // which is said
			continue
		}
		what, cure := neverFits(row, fit.Pools)
		at := c.oversizedKey(p, what)
		if i := slices.IndexFunc(p.Sizes, func(s spec.HubSize) bool { return p.Name+"/"+s.Name == row.Profile }); i >= 0 {
			at = &p.Sizes[i]
		}
		c.Wrong(at, fmt.Sprintf("no server of profile %s can ever start: %s", row.Profile, what), cure)
	}
	c.homesPin(fit)
}

// homesPin warns of homes that keep people from a profile.
func (c checker) homesPin(fit jupyterhub.Report) {
	if len(fit.Apart) == 0 {
		return
	}
	h := c.spec.Platform.Hub
	at := any(h)
	if c.IsSet(&h.Home.Class) {
		at = &h.Home.Class
	}
	class := cmp.Or(c.spec.Platform.Hub.Home.Class, c.spec.Platform.Storage.Default, spec.LocalPath)
	c.Warn(at, fmt.Sprintf("homes are of storage class %s and stay on one node: %s", class, fit.Apart[0]),
		"write storage: {nfs: {vm: {address: ADDRESS, size: 500GiB}}} for homes that every node reaches, or give the profiles one pool of a single node")
}

// oversizedKey is the key of a profile that requests more than any node has.
func (c checker) oversizedKey(raw *spec.HubProfile, why string) any {
	for _, k := range []struct {
		word string
		at   any
	}{{"quota", &c.spec.Platform.Hub.Quota}, {"GPU", &raw.GPUs}, {"share of a GPU", &raw.GPUMemory}, {"nvidia.com/mig", &raw.MIG}, {"cores", &raw.CPU}, {"of disk", &raw.EphemeralStorage}, {"iB", &raw.Memory}} {
		if strings.Contains(why, k.word) && c.IsSet(k.at) {
			return k.at
		}
	}
	if c.IsSet(raw) {
		return raw
	}
	return c.spec.Platform.Hub
}

// neverFits says why a profile fits nowhere, and the largest that would fit.
func neverFits(row jupyterhub.Row, pools []string) (what, cure string) {
	if row.Limit != "" {
		return "one is more than " + row.Limit, "ask for less, or write a larger quota"
	}
	var why, largest, elsewhere, without []string
	for i, cell := range row.Cells {
		switch {
		case strings.HasPrefix(cell.Reason, "a node has 0 GPUs"):
			without = append(without, pools[i])
		case cell.Largest != "":
			why = append(why, fmt.Sprintf("on %s %s", pools[i], cell.Reason))
			largest = append(largest, fmt.Sprintf("%s on %s", cell.Largest, pools[i]))
		default:
			elsewhere = append(elsewhere, fmt.Sprintf("%s is out of the question (%s)", pools[i], cell.Reason))
		}
	}
	switch {
	case len(largest) > 0:
		return inBytes(strings.Join(why, ", and ")), inBytes("the largest that fits: " + strings.Join(largest, ", or "))
	case len(without) > 0:
		return "the nodes of " + strings.Join(without, ", ") + " offer no GPUs", "write gpus: in a pool of nodes, or remove gpus here"
	default:
		return strings.Join(elsewhere, ", and "), "name another pool, or ask for what its nodes have"
	}
}

// chartValues refuses values that the hub's chart refuses, and warns of those that remove settings
// of hub:. Another version of the chart may know other values.
func (c checker) chartValues() {
	at := c.Entry(&c.spec.Platform.Charts.Values, "jupyterhub")
	say := c.Wrong
	if c.IsSet(&c.spec.Platform.Hub.Version) {
		say = c.Warn
	}
	for _, f := range jupyterhub.CheckChartValues(c.spec.Platform.Charts.Values["jupyterhub"]) {
		say(c.Entry(&c.spec.Platform.Charts.Values, "jupyterhub."+f.Path), f.What, f.Cure)
	}
	for _, what := range Hub(c.spec).RemovedSettings() {
		c.Warn(at, "charts.values.jupyterhub sets "+what, "remove it, unless that is what you want")
	}
}

// inBytes writes sizes as in cluster.yaml: 64GiB for Kubernetes' 64Gi.
func inBytes(s string) string {
	return regexp.MustCompile(`\b([0-9]+[KMGT]i)\b`).ReplaceAllString(s, "${1}B")
}

// hubField is the place in the file of a field of jupyterhub.Hub, such as Profiles[gpu].SHM or
// Home.Path.
func hubField(h *spec.Hub, field string) any {
	section, _, _ := strings.Cut(field, ".")
	section, in, _ := strings.Cut(strings.TrimSuffix(section, "]"), "[")
	at := map[string]any{
		"Profiles": h.Profile(in), "Shared": h.Share(in), "Home": &h.Home, "Scratch": h.Scratch, "Database": &h.Database,
		"Auth": &h.Auth, "Cull": &h.Cull, "Quota": &h.Quota,
	}[section]
	if at == nil || reflect.ValueOf(at).IsNil() {
		return h
	}
	return at
}
