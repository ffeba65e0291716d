package clusterfile

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/nvidia"
)

// profilesSection completes and checks the hub's profiles against what nodes offer.
type profilesSection struct{ *resolver }

// profilesFit compares each profile with the nodes' allocatable resources, not with their
// capacity.
func (r profilesSection) profilesFit() {
	if r.spec.Platform.Hub == nil || len(r.spec.Nodes) == 0 {
		return
	}
	h := r.spec.Platform.Hub
	for i := range h.Profiles {
		r.profilePool(&h.Profiles[i])
	}
	r.groupsAreKnown()
	r.chartValues()
	fit := platform.Fit(r.spec)
	for _, row := range fit.Rows {
		p := h.Profile(row.Profile)
		if row.Total > 0 || p.Pool != "" && !r.hubPool(p.Pool) {
			continue
		}
		if p.MIG != "" {
			if _, there := r.instances(p); !there { // which is said
				continue
			}
		}
		what, cure := never(row, fit.Pools)
		r.Wrong(r.tooMuch(p, what), fmt.Sprintf("no server of profile %s can ever start: %s", row.Profile, what), cure)
	}
	r.homesPin(fit)
	r.besideEtcd()
}

// homesPin warns of homes that keep people from a profile.
func (r profilesSection) homesPin(fit jupyterhub.Report) {
	if len(fit.Apart) == 0 {
		return
	}
	h := r.spec.Platform.Hub
	at := any(h)
	if r.IsSet(&h.Home.Class) {
		at = &h.Home.Class
	}
	class := cmp.Or(r.spec.Platform.Hub.Home.Class, r.spec.Platform.Storage.Default, platform.LocalPath)
	r.Warn(at, fmt.Sprintf("homes are of storage class %s and stay on one node: %s", class, fit.Apart[0]),
		"write storage: {nfs: {vm: {address: ADDRESS, size: 500GiB}}} for homes that every node reaches, or give the profiles one pool of a single node")
}

// besideEtcd warns of profiles that run on servers only, where a notebook that uses up the
// memory stops the cluster.
func (r profilesSection) besideEtcd() {
	agents := slices.ContainsFunc(r.spec.Nodes, func(n spec.Node) bool { return n.Role == spec.Agent })
	for i := range r.spec.Platform.Hub.Profiles {
		p := &r.spec.Platform.Hub.Profiles[i]
		if !agents || p.Pool != "" || p.GPUs > 0 || platform.OpenAgents(r.spec) || !r.IsSet(p) {
			continue
		}
		cure := "make a pool of agents without GPUs and write pool: and its name"
		if pool := platform.OnlyGPUPool(r.spec); pool != "" {
			cure = "write pool: " + pool + ", or make a pool of agents without GPUs and name that"
		}
		r.Warn(p, fmt.Sprintf("profile %s runs on servers only, beside the API and etcd: the agents' taints keep it away", p.Name), cure)
	}
}

// tooMuch is the key of a profile that requests more than any node has.
func (r profilesSection) tooMuch(raw *spec.HubProfile, why string) any {
	for _, k := range []struct {
		word string
		at   any
	}{{"quota", &r.spec.Platform.Hub.Quota}, {"GPU", &raw.GPUs}, {"share of a GPU", &raw.GPUMemory}, {"nvidia.com/mig", &raw.MIG}, {"cores", &raw.CPU}, {"iB", &raw.Memory}} {
		if strings.Contains(why, k.word) && r.IsSet(k.at) {
			return k.at
		}
	}
	if r.IsSet(raw) {
		return raw
	}
	return r.spec.Platform.Hub
}

// never says why a profile fits nowhere, and the largest that would fit.
func never(row jupyterhub.Row, pools []string) (what, cure string) {
	if row.Limit != "" {
		return "one is more than " + row.Limit, "ask for less, or write a larger quota"
	}
	var why, largest, elsewhere, without []string
	for i, cell := range row.Cells {
		switch {
		case strings.HasPrefix(cell.Why, "a node has 0 GPUs"):
			without = append(without, pools[i])
		case cell.Largest != "":
			why = append(why, fmt.Sprintf("on %s %s", pools[i], cell.Why))
			largest = append(largest, fmt.Sprintf("%s on %s", cell.Largest, pools[i]))
		default:
			elsewhere = append(elsewhere, fmt.Sprintf("%s is out of the question (%s)", pools[i], cell.Why))
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

// profilePool checks the pool that a profile names, and that GPU memory can be limited there.
func (r profilesSection) profilePool(raw *spec.HubProfile) {
	if raw.Pool != "" && !r.hubPool(raw.Pool) {
		names := nodesSection(r).poolList()
		for _, n := range r.entries {
			names = append(names, n.Name)
		}
		r.Wrong(&raw.Pool, fmt.Sprintf("there is no pool %q of nodes", raw.Pool), decode.OrSuggest(raw.Pool, names))
		return
	}
	r.profileInstance(raw)
	if !r.IsSet(&raw.GPUMemory) {
		return
	}
	mps := slices.ContainsFunc(r.spec.Nodes, func(n spec.Node) bool {
		return n.GPUs.Count > 0 && n.GPUs.Sharing.Strategy == spec.SharingMPS && (raw.Pool == "" || raw.Pool == cmp.Or(n.Pool, n.Name))
	})
	if !mps {
		cure := "write nvidia: {sharing: {strategy: mps, replicas: 4}}, or gpus.sharing of the pool; or remove gpuMemory"
		if offers, _ := r.instances(raw); len(offers) > 0 {
			cure = fmt.Sprintf("remove gpuMemory: an instance has its own memory, and %s; write gpus: 1 for a nvidia.com/gpu, or mig: with a profile", suggest.Few(offers))
		}
		r.Wrong(&raw.GPUMemory, fmt.Sprintf("nothing limits the GPU memory of profile %s: no node that it runs on shares its GPUs by MPS", raw.Name), cure)
	}
	if r.IsSet(&raw.SHM) {
		r.Wrong(&raw.SHM, "with MPS /dev/shm is the daemon's own, on the node", "remove shm")
	}
}

// profileInstance checks that a node offers the instances that a profile asks for.
func (r profilesSection) profileInstance(raw *spec.HubProfile) {
	name := raw.Name
	if raw.MIG == "" {
		return
	}
	if profile := strings.TrimPrefix(strings.TrimPrefix(raw.MIG, "nvidia.com/"), "mig-"); profile != raw.MIG {
		r.Wrong(&raw.MIG, fmt.Sprintf("mig is %s, the name of a resource", raw.MIG), "write its profile, mig: "+profile)
		return
	}
	offers, there := r.instances(raw)
	if there {
		return
	}
	if len(offers) == 0 {
		r.Wrong(&raw.MIG, fmt.Sprintf("no node that profile %s runs on divides its GPUs", name), "write nvidia: {sharing: {strategy: mig, layouts: [{gpus: [0], profiles: {3g.20gb: 2}}]}}, or gpus.sharing of the pool; or remove mig")
		return
	}
	r.Wrong(&raw.MIG, fmt.Sprintf("no node that profile %s runs on offers instances by the name %s: %s", name, raw.MIG, suggest.Few(offers)),
		"write one of these, or gpus: 1 for a nvidia.com/gpu, which on a node whose GPUs are all divided alike is an instance")
}

// instances says what the nodes of a profile that divide their GPUs offer, and whether its instances
// are among that.
func (r profilesSection) instances(raw *spec.HubProfile) (offers []string, there bool) {
	for _, n := range r.spec.Nodes {
		if raw.Pool != "" && raw.Pool != cmp.Or(n.Pool, n.Name) || n.GPUs.Sharing.Strategy != spec.SharingMIG {
			continue
		}
		g := offer.Of(n)
		there = there || g.Resources[nvidia.MIGResource(raw.MIG)] > 0
		offers = append(offers, fmt.Sprintf("%s offers %s", n.Name, g))
	}
	return offers, there
}

// hubPool reports whether a profile can name it: a pool, or a node outside pools.
func (r profilesSection) hubPool(name string) bool {
	return slices.ContainsFunc(r.spec.Nodes, func(n spec.Node) bool { return name == cmp.Or(n.Pool, n.Name) })
}

// groupsAreKnown: profiles and shares for groups need a login that provides groups.
func (r profilesSection) groupsAreKnown() {
	h := r.spec.Platform.Hub
	if h.Auth.Groups() {
		return
	}
	say := func(at any, what string) {
		r.Warn(at, fmt.Sprintf("%s is for groups, and a login with %s brings none: an admin has to add people to groups in the hub", what, h.Auth.Kind), "write auth: oidc with groupsClaim, or remove groups")
	}
	all := true
	for i := range h.Profiles {
		if p := &h.Profiles[i]; len(p.Groups) > 0 {
			say(&p.Groups, "profile "+p.Name)
		} else {
			all = false
		}
	}
	for i := range h.Shared {
		if s := &h.Shared[i]; len(s.Groups) > 0 {
			say(&s.Groups, "share "+s.Name)
		}
	}
	if all {
		r.Wrong(&h.Profiles, "every profile is for groups, and nobody is in one", "leave one profile without groups, or write auth: oidc with groupsClaim")
	}
}

// chartValues refuses values that the hub's chart refuses, and warns of those that remove settings
// of hub:. Another version of the chart may know other values.
func (r profilesSection) chartValues() {
	at := r.MemberAt(&r.spec.Platform.Charts.Values, "jupyterhub")
	say := r.Wrong
	if r.IsSet(&r.spec.Platform.Hub.Version) {
		say = r.Warn
	}
	for _, f := range jupyterhub.CheckChartValues(r.spec.Platform.Charts.Values["jupyterhub"]) {
		say(r.MemberAt(&r.spec.Platform.Charts.Values, "jupyterhub."+f.Path), f.What, f.Cure)
	}
	for _, what := range platform.Hub(r.spec).Broken() {
		r.Warn(at, "charts.values.jupyterhub sets "+what, "remove it, unless that is what you want")
	}
}

// inBytes writes sizes as in cluster.yaml: 64GiB for Kubernetes' 64Gi.
func inBytes(s string) string {
	return regexp.MustCompile(`\b([0-9]+[KMGT]i)\b`).ReplaceAllString(s, "${1}B")
}
