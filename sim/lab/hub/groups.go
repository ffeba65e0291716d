package hub

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/lab/login"
)

// groupOverride is one of JupyterHub's group_overrides: what servers of members of any of its groups have.
type groupOverride struct {
	Groups   []string       `json:"groups"`
	Override map[string]any `json:"spawner_override"`
}

// groups are a user's, as the provider has said last. Without a provider the lab has none.
func (h *hub) groups(user string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.users[user]; u != nil {
		return u.groups
	}
	return nil
}

// traitsOf are what all servers have, and what a user's groups add to it, in the order of the overrides' names (JupyterHub 5.5
// spawner.py, apply_group_overrides).
func (h *hub) traitsOf(user string) map[string]any {
	t, groups, overrides := h.traits(), h.groups(user), h.values.Hub.Config.Spawner.GroupOverrides
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if o := overrides[name]; login.Share(groups, o.Groups) {
			mergeInto(t, table(o.Override))
		}
	}
	return t
}

// offered are the profiles that a user may choose: those of their groups, where the lab knows groups. Who verifies the hub may
// choose all.
func (h *hub) offered(user string) []profile {
	list := h.values.Singleuser.ProfileList
	if h.oauth == nil || user == h.values.Custom.Homelab.VerifyUser {
		return list
	}
	groups := h.groups(user)
	return slices.DeleteFunc(slices.Clone(list), func(p profile) bool {
		its, limited := h.values.Custom.Homelab.ProfileGroups[p.slug()]
		return limited && !login.Share(groups, its)
	})
}

// choose applies a profile and the choices in it; unknown ones are refused in KubeSpawner's words.
func (h *hub) choose(user string, options map[string]any) (map[string]any, error) {
	t := h.traitsOf(user)
	profile, _ := options["profile"].(string)
	list := h.offered(user)
	if len(h.values.Singleuser.ProfileList) == 0 {
		return t, nil
	}
	if len(list) == 0 {
		return nil, errors.New("HTTP 403: Forbidden (There is no profile for you: ask for membership in a group that has one)")
	}
	var names []string
	for n, p := range list {
		names = append(names, p.slug())
		if p.slug() == profile || profile == "" && isDefault(list, n) {
			mergeInto(t, table(p.Override))
			for name, o := range p.Options {
				override, err := o.override(name, options)
				if err != nil {
					return nil, err
				}
				mergeInto(t, override)
			}
			return t, nil
		}
	}
	return nil, fmt.Errorf("No such profile: %s. Options include: %s", profile, strings.Join(names, ", ")) //nolint:staticcheck // KubeSpawner's own words
}

// isDefault reports whether a profile is the one of who chooses none.
func isDefault(list []profile, n int) bool {
	chosen := slices.IndexFunc(list, func(p profile) bool { return p.Default })
	return n == max(chosen, 0)
}
