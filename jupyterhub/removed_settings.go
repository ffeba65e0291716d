package jupyterhub

import (
	"fmt"
	"maps"
	"slices"
)

// RemovedSettings lists settings of the hub that [Hub.ChartValues] remove, by the chart's key. It is
// not an error, because the user may intend it.
func (h Hub) RemovedSettings() []string {
	over := h.ChartValues
	var out []string
	say := func(key, format string, args ...any) { out = append(out, key+": "+fmt.Sprintf(format, args...)) }
	if v, ok := valueAt(over, "hub", "existingSecret"); ok && v != secretName {
		say("hub.existingSecret", "logins, cookies and the token of hub:verify are in the Secret %s, which the hub then does not read", secretName)
	}
	if v, ok := valueAt(over, "hub", "config", "JupyterHub", "authenticator_class"); ok {
		say("hub.config.JupyterHub.authenticator_class", "%v replaces the logins of this file: %s", v, h.Auth.Kind)
	}
	for _, taken := range []struct {
		key  string
		path []string
		ours map[string]any
		what string
	}{
		{"hub.services", []string{"hub", "services"}, h.services(), "services that verify and cull"},
		{"hub.loadRoles", []string{"hub", "loadRoles"}, h.roles(), "what our services may do"},
		{"hub.extraConfig", []string{"hub", "extraConfig"}, h.snippets(), "logins and profiles by group"},
	} {
		v, ok := valueAt(over, taken.path...)
		if !ok {
			continue
		}
		m, isMap := v.(map[string]any)
		if !isMap && len(taken.ours) > 0 {
			say(taken.key, "it is not a mapping and replaces ours: %s", taken.what)
		}
		for _, name := range slices.Sorted(maps.Keys(taken.ours)) {
			if _, replaced := m[name]; replaced {
				say(taken.key+"."+name, "it is ours: %s", taken.what)
			}
		}
	}
	if _, replaced := valueAt(over, "singleuser", "profileList"); replaced {
		say("singleuser.profileList", "it replaces the profiles of this file, which hub:profiles and hub:verify use")
	}
	return out
}

// valueAt returns a value by its keys.
func valueAt(values map[string]any, path ...string) (any, bool) {
	for _, key := range path[:len(path)-1] {
		values, _ = values[key].(map[string]any)
	}
	v, ok := values[path[len(path)-1]]
	return v, ok
}
