package hub

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// profiles: kubespawner/spawner.py, _get_profile and _apply_overrides.
func (f *finder) profiles() {
	all := f.get("singleuser", "profileList")
	list := all.list()
	for _, field := range all.Entries() {
		list = append(list, field.Value)
	}
	names, first := map[string]bool{}, ""
	for _, n := range list {
		profile := value{n, all.from, n.Place()}
		name := n.Get("slug").Str()
		if title := n.Get("display_name").Str(); title == "" {
			f.add(true, profile, "write display_name", "a profile without display_name: the page on which people choose fails")
		} else if name == "" {
			name = title
		}
		if names[name] && name != "" {
			f.add(true, profile, "give it another display_name, or a slug of its own", "the profile %q is there twice: people get the first", name)
		}
		names[name] = true
		if n.Get("default").Str() == "true" {
			if first != "" {
				f.add(false, value{n, all.from, n.Key("default")}, "keep one of them", "a second default: the profile %q is chosen", first)
			} else {
				first = name
			}
		}
		f.override(name, value{n.Get("kubespawner_override"), all.from, n.Key("kubespawner_override")})
		for _, option := range n.Get("profile_options").Entries() {
			for _, choice := range option.Value.Get("choices").Entries() {
				f.override(name, value{choice.Value.Get("kubespawner_override"), all.from, choice.Value.Key("kubespawner_override")})
			}
		}
	}
	f.amounts("singleuser", value{})
}

// override: names are KubeSpawner's traits, and a list replaces what is there.
func (f *finder) override(profile string, set value) {
	if set.Node.AsMap() == nil {
		return
	}
	for _, field := range set.Fields {
		at := value{field.Value, set.from, field.At}
		switch {
		case strings.IndexFunc(field.Name, unicode.IsUpper) >= 0:
			f.add(true, at, "write KubeSpawner's name, as node_selector for nodeSelector", "profile %q: KubeSpawner has no %s", profile, field.Name)
		case (field.Name == "volumes" || field.Name == "volume_mounts") && field.Value.Kind == yamlnode.List && f.get("singleuser", "storage", "type").Str() != "none":
			f.add(true, at, "write a mapping, which is added: NAME: {name: NAME, …}",
				"profile %q: this list replaces the volumes of singleuser.storage, and servers lose their home folders", profile)
		case field.Name == "tolerations" && (len(f.get("singleuser", "extraTolerations").list()) > 0 || len(f.get("scheduling", "userPods", "tolerations").list()) > 0):
			f.add(false, at, "repeat the others in it", "profile %q: this list replaces the tolerations of singleuser.extraTolerations and scheduling.userPods", profile)
		}
	}
	f.amounts("profile "+strconv.Quote(profile), set)
}

// amounts: Kubernetes refuses a Pod whose request is more than its limit. The chart's own
// guarantee of memory is 1G.
func (f *finder) amounts(who string, set value) {
	for _, what := range []string{"mem", "cpu"} {
		own := map[string]string{"mem": "memory", "cpu": "cpu"}[what]
		if f.maySetInPython(what+"_") || f.get("hub", "config", "KubeSpawner", what+"_guarantee").set() || f.get("hub", "config", "KubeSpawner",
			what+"_limit").set() {
			continue
		}
		limit, at := f.amount(set, what+"_limit", own, "limit", "")
		least, low := f.amount(set, what+"_guarantee", own, "guarantee", map[string]string{"mem": "1G"}[what])
		if most, need := amount(limit), amount(least); most == 0 || need <= most || set.Node != nil && at.Node == nil && low.Node == nil {
			continue
		}
		if at.Node == nil {
			at = low
		}
		f.add(true, at, "raise the limit, or lower the guarantee", "%s: the guarantee of %s, %s, is more than the limit, %s: Kubernetes refuses the server", who, own, least, limit)
	}
}

// amount is that of an override, or else of all servers; its place is nil where it is the chart's.
func (f *finder) amount(set value, trait, own, key, otherwise string) (string, value) {
	if field, ok := set.Node.Field(trait); ok {
		return field.Value.Str(), value{field.Value, set.from, field.At}
	}
	got, null := f.lookup("singleuser", own, key)
	if got.set() && set.Node == nil {
		return got.Str(), got
	}
	if got.set() || null {
		return got.Str(), value{}
	}
	return otherwise, value{}
}

var amounts = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([KMGT]?)$`)

// amount reads one as JupyterHub does (traitlets.py ByteSpecification); 0 for anything else.
func amount(text string) float64 {
	m := amounts.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	for range strings.Index(" KMGT", m[2]) {
		n *= 1024
	}
	return n
}
