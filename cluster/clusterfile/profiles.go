package clusterfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/suggest"
)

// profilesSection completes and checks the hub's profiles against what nodes offer.
type profilesSection struct{ *resolver }

// profilesFit compares each profile with what the file says of nodes. Whether they have room for it is
// for a [spec.Check].
func (r profilesSection) profilesFit() {
	if r.spec.Platform.Hub == nil || len(r.spec.Nodes) == 0 {
		return
	}
	h := r.spec.Platform.Hub
	for i := range h.Profiles {
		r.profilePool(&h.Profiles[i])
	}
	r.groupsAreKnown()
	r.besideEtcd()
}

// besideEtcd warns of profiles that run on servers only, where a notebook that uses up the
// memory stops the cluster.
func (r profilesSection) besideEtcd() {
	agents := slices.ContainsFunc(r.spec.Nodes, func(n spec.Node) bool { return n.Role == spec.Agent })
	for i := range r.spec.Platform.Hub.Profiles {
		p := &r.spec.Platform.Hub.Profiles[i]
		if !agents || p.Pool != "" || !slices.ContainsFunc(spec.Variants(*p), func(v spec.HubProfile) bool { return v.GPUs == 0 }) || r.spec.OpenAgents() || !r.IsSet(p) {
			continue
		}
		cure := "make a pool of agents without GPUs and write pool: and its name"
		if pool := r.spec.OnlyGPUPool(); pool != "" {
			cure = "write pool: " + pool + ", or make a pool of agents without GPUs and name that"
		}
		r.Warn(p, fmt.Sprintf("profile %s runs on servers only, beside the API and etcd: the agents' taints keep it away", p.Name), cure)
	}
}

// profilePool checks the pool that a profile names, and that GPU memory can be limited there.
func (r profilesSection) profilePool(raw *spec.HubProfile) {
	if raw.Pool != "" && !r.spec.HasPool(raw.Pool) {
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
		return n.HasGPUs() && n.GPUs.Sharing.Strategy == spec.SharingMPS && (raw.Pool == "" || raw.Pool == n.PoolName())
	})
	if !mps {
		cure := "write nvidia: {sharing: {strategy: mps, replicas: 4}}, or gpus.sharing of the pool; or remove gpuMemory"
		if offers, _ := offer.Instances(r.spec, *raw); len(offers) > 0 {
			cure = fmt.Sprintf("remove gpuMemory: an instance has its own memory, and %s; write gpus: 1 for a nvidia.com/gpu, or mig: with a profile", suggest.FirstOf(offers))
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
	offers, there := offer.Instances(r.spec, *raw)
	if there {
		return
	}
	if len(offers) == 0 {
		r.Wrong(&raw.MIG, fmt.Sprintf("no node that profile %s runs on divides its GPUs", name), "write nvidia: {sharing: {strategy: mig, layouts: [{gpus: [0], profiles: {3g.20gb: 2}}]}}, or gpus.sharing of the pool; or remove mig")
		return
	}
	r.Wrong(&raw.MIG, fmt.Sprintf("no node that profile %s runs on offers instances by the name %s: %s", name, raw.MIG,
		suggest.FirstOf(offers)),
		"write one of these, or gpus: 1 for a nvidia.com/gpu, which on a node whose GPUs are all divided alike is an instance")
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
		if s := &h.Shared[i]; len(s.Groups)+len(s.Writers) > 0 {
			say(s, "share "+s.Name)
		}
	}
	if all {
		r.Wrong(&h.Profiles, "every profile is for groups, and nobody is in one", "leave one profile without groups, or write auth: oidc with groupsClaim")
	}
}
