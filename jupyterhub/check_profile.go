package jupyterhub

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// imageName is a loose form of what container registries accept.
var imageName = regexp.MustCompile(`^[a-z0-9]([a-zA-Z0-9._:/@-]*[a-zA-Z0-9])?$`)

func (h Hub) checkProfiles(c *checker) {
	if len(h.Profiles) == 0 {
		c.say("Profiles", "missing: at least one")
	}
	seen := map[string]bool{}
	var defaults, forAll int
	for _, p := range h.Profiles {
		field := "Profiles[" + p.Name + "]"
		if !dnsLabel.MatchString(p.Name) || len(p.Name) > 63 {
			c.say(field+".Name", "%q: want small letters, digits and dashes, at most 63", p.Name)
		}
		if seen[p.Name] {
			c.say(field+".Name", "there is a profile of this name already")
		}
		seen[p.Name] = true
		if p.Default {
			defaults++
		}
		if len(p.Groups) == 0 {
			forAll++
		}
		h.checkProfile(c, field, p)
	}
	if defaults > 1 {
		c.say("Profiles", "%d of them are the default: only one can be", defaults)
	}
	if len(h.Profiles) > 0 && forAll == 0 && !h.Auth.Groups() {
		c.say("Profiles", "every profile is for groups, and users have none until an admin adds them: leave one profile for all users, or set Auth.OIDC.GroupsClaim")
	}
	names := map[string]bool{}
	for _, in := range h.Pools {
		if names[in.Name] {
			c.say("Pools["+in.Name+"]", "there is a pool of this name already")
		}
		names[in.Name] = true
	}
}

func (h Hub) checkProfile(c *checker, field string, p spec.HubProfile) {
	for _, image := range append([]spec.HubImage{{Image: p.Image}}, p.Images...) {
		if len(image.Image) > 500 || !imageName.MatchString(image.Image) {
			c.say(field+".Image", "%q is not an image reference", image.Image)
		}
	}
	for _, v := range spec.Variants(p) {
		checkAmounts(c, field, v)
	}
	if in, ok := pool(h.Pools, p.Pool); p.Pool != "" && !ok {
		c.say(field+".Pool", "there is no pool %q: there are %s", p.Pool, poolNames(h.Pools))
	} else if ok && len(in.Labels) == 0 {
		c.say(field+".Pool", "pool %q has no labels by which its nodes can be chosen", p.Pool)
	}
	if p.RuntimeClass != "" && !dnsName.MatchString(p.RuntimeClass) {
		c.say(field+".RuntimeClass", "%q is not a name of a runtime class", p.RuntimeClass)
	}
	if p.DefaultURL != "" && !strings.HasPrefix(p.DefaultURL, "/") {
		c.say(field+".DefaultURL", "%q: want a path such as /lab", p.DefaultURL)
	}
	for _, name := range p.Packages {
		if name == "" || strings.ContainsAny(name, "'\n") || name[0] == '-' {
			c.say(field+".Packages", "%q is not a package for pip", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if !envName.MatchString(name) {
			c.say(field+".Env", "%q is not a name of a variable", name)
		}
		c.template(field+".Env["+name+"]", p.Env[name])
	}
	checkGPUs(c, field, p)
}

// checkAmounts checks CPU and memory of a profile in one of its sizes.
func checkAmounts(c *checker, field string, p spec.HubProfile) {
	if p.CPU.Guarantee < 0 || p.CPU.Limit < 0 {
		c.say(field+".CPU", "must not be negative: want cores, e.g. 2 or 0.5")
	}
	if !(p.CPU.Guarantee < 1e6 && p.CPU.Limit < 1e6) { // NaN too
		c.say(field+".CPU", "%v and %v cores: no node has that many", p.CPU.Guarantee, p.CPU.Limit)
	}
	if p.CPU.Limit > 0 && p.CPU.Guarantee > p.CPU.Limit {
		c.say(field+".CPU", "%v cores are more than the limit of %v", p.CPU.Guarantee, p.CPU.Limit)
	}
	c.size(field+".Memory", p.Memory.Guarantee)
	c.size(field+".Memory", p.Memory.Limit)
	c.size(field+".SHM", p.SHM)
	c.size(field+".EphemeralStorage", p.EphemeralStorage.Guarantee)
	c.size(field+".EphemeralStorage", p.EphemeralStorage.Limit)
	if p.EphemeralStorage.Limit > 0 && p.EphemeralStorage.Guarantee > p.EphemeralStorage.Limit {
		c.say(field+".EphemeralStorage", "%s is more than the limit of %s", Bytes(p.EphemeralStorage.Guarantee), Bytes(p.EphemeralStorage.Limit))
	}
	if p.Memory.Limit > 0 && requestsOf(p).memory > Bytes(p.Memory.Limit) {
		c.say(field+".Memory", "%s is more than the limit of %s", requestsOf(p).memory, p.Memory.Limit)
	}
	if p.Memory.Limit > 0 && p.SHM > p.Memory.Limit {
		c.say(field+".SHM", "%s is more than the limit of %s: /dev/shm is memory and counts towards it", p.SHM, p.Memory.Limit)
	}
}

func checkGPUs(c *checker, field string, p spec.HubProfile) {
	if p.GPUs < 0 {
		c.say(field+".GPUs", "%d: want 0 or more", p.GPUs)
	}
	c.size(field+".GPUMemory", p.GPUMemory)
	switch {
	case p.GPUMemory == 0:
	case p.GPUs == 0:
		c.say(field+".GPUMemory", "needs a GPU: write GPUs: 1")
	case p.GPUs > 1:
		c.say(field+".GPUMemory", "a share belongs to one GPU: want GPUs: 1")
	case p.GPUMemory < MiB:
		c.say(field+".GPUMemory", "%s is less than a program needs to start", p.GPUMemory)
	}
	if p.GPUMemory > 0 && p.SHM > 0 {
		c.say(field+".SHM", "with MPS /dev/shm is the daemon's own, on the node: leave it out")
	}
}

func poolNames(pools []Pool) string {
	if len(pools) == 0 {
		return "none"
	}
	names := make([]string, len(pools))
	for i, p := range pools {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}
