package schema

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
)

// sectionsYAML says what the sections of Proxmox's configuration files hold.
//
//go:embed sections.yaml
var sectionsYAML []byte

// Section is one type of section.
type Section struct {
	Options string `yaml:"options"` // names, with ! where fixed and ? where optional
	Content string `yaml:"content"` // of a storage: what it may hold
	Usual   string `yaml:"usual"`   // of a storage: what it holds unless told
	Secret  string `yaml:"secret"`  // names of what is kept elsewhere

	Known map[string]option
	order []string
}

type option struct{ fixed, Optional bool }

var sectionTypes = sync.OnceValue(func() map[string]map[string]*Section {
	files := map[string]map[string]*Section{}
	if err := yaml.Unmarshal(sectionsYAML, &files); err != nil {
		panic("pvesim: embedded sections: " + err.Error())
	}
	for _, types := range files {
		for _, t := range types {
			t.Known = map[string]option{}
			for word := range strings.FieldsSeq(t.Options) {
				name := strings.TrimRight(word, "!?")
				t.Known[name] = option{fixed: strings.Contains(word, "!"), Optional: strings.Contains(word, "?")}
				t.order = append(t.order, name)
			}
		}
	}
	return files
})

// SectionOf returns what is known of a type; nil for one that there is not.
func SectionOf(file, kind string) *Section { return sectionTypes()[file][kind] }

// Check holds values that are to be set against what a type of section takes
// (PVE/SectionConfig.pm, check_config).
func (t *Section) Check(values map[string]string, create bool) error {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		o, known := t.Known[k]
		switch {
		case !create && known && o.fixed:
			return answer.Die("can't change value of fixed parameter '%s'", k)
		case k == "type": // who calls has compared it
		case !known:
			return answer.Die("unexpected property '%s'", k)
		case strings.ContainsAny(values[k], "\r\n"):
			return answer.Die("property contains a line feed")
		}
	}
	for _, k := range t.order {
		if _, given := values[k]; create && !given && !t.Known[k].Optional {
			return answer.Die("missing value for required option '%s'", k)
		}
	}
	return nil
}

// CheckDelete holds what is to be deleted against it (delete_from_config).
func (t *Section) CheckDelete(names []string, values map[string]string) error {
	for _, k := range names {
		o, known := t.Known[k]
		_, given := values[k]
		switch {
		case !known:
			return answer.Die("no such option '%s'", k)
		case !o.Optional:
			return answer.Die("unable to delete required option '%s'", k)
		case o.fixed:
			return answer.Die("unable to delete fixed option '%s'", k)
		case given:
			return answer.Die("cannot set and delete property '%s' at the same time!", k)
		}
	}
	return nil
}

// IsSecret reports whether a property is kept where nobody reads it.
func (t *Section) IsSecret(name string) bool {
	return slices.Contains(strings.Fields(t.Secret), name)
}
