package jupyterhub

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
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
	if len(h.Profiles) > 0 && forAll == 0 && !h.Auth.hasGroups() {
		c.say("Profiles", "every profile is for groups, and users have none until an admin adds them: leave one profile for all users, or set Auth.GroupsClaim")
	}
	names := map[string]bool{}
	for _, in := range h.Pools {
		if names[in.Name] {
			c.say("Pools["+in.Name+"]", "there is a pool of this name already")
		}
		names[in.Name] = true
	}
}

// hasGroups says whether the login provides users' groups.
func (a Auth) hasGroups() bool { return a.Kind == OIDC && a.GroupsClaim != "" }

func (h Hub) checkProfile(c *checker, field string, p Profile) {
	if len(p.Image) > 500 || !imageName.MatchString(p.Image) {
		c.say(field+".Image", "%q is not an image reference", p.Image)
	}
	if p.CPUGuarantee < 0 || p.CPULimit < 0 {
		c.say(field+".CPULimit", "must not be negative: want cores, e.g. 2 or 0.5")
	}
	if !(p.CPUGuarantee < 1e6 && p.CPULimit < 1e6) { // NaN too
		c.say(field+".CPULimit", "%v and %v cores: no node has that many", p.CPUGuarantee, p.CPULimit)
	}
	if p.CPULimit > 0 && p.CPUGuarantee > p.CPULimit {
		c.say(field+".CPUGuarantee", "%v cores are more than the limit of %v", p.CPUGuarantee, p.CPULimit)
	}
	c.size(field+".MemGuarantee", p.MemGuarantee)
	c.size(field+".MemLimit", p.MemLimit)
	c.size(field+".SHM", p.SHM)
	if p.MemLimit > 0 && p.requests().memory > p.MemLimit {
		c.say(field+".MemGuarantee", "%s is more than the limit of %s", p.requests().memory, p.MemLimit)
	}
	if p.MemLimit > 0 && p.SHM > p.MemLimit {
		c.say(field+".SHM", "%s is more than the limit of %s: /dev/shm is memory and counts towards it", p.SHM, p.MemLimit)
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
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if !envName.MatchString(name) {
			c.say(field+".Env", "%q is not a name of a variable", name)
		}
		c.template(field+".Env["+name+"]", p.Env[name])
	}
	checkGPUs(c, field, p)
}

func checkGPUs(c *checker, field string, p Profile) {
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
	for _, name := range slices.Sorted(maps.Keys(p.Resources)) {
		amount := p.Resources[name]
		if name == resourceGPU {
			c.say(field+".Resources", "%s is set by GPUs", resourceGPU)
		}
		if i := strings.IndexByte(name, '/'); i <= 0 || !dnsName.MatchString(name[:i]) {
			c.say(field+".Resources", "%q: want an extended resource such as nvidia.com/mig-1g.5gb", name)
		}
		if q, err := resource.ParseQuantity(amount); err != nil || q.Sign() <= 0 || q.MilliValue()%1000 != 0 {
			c.say(field+".Resources["+name+"]", "%q: want a whole number", amount)
		}
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
