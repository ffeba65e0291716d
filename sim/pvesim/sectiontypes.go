package pvesim

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

// sectionsYAML says what the sections of Proxmox's configuration files hold.
//
//go:embed sections.yaml
var sectionsYAML []byte

// sectionType is one type of section.
type sectionType struct {
	Options string `yaml:"options"` // names, with ! where fixed and ? where optional
	Content string `yaml:"content"` // of a storage: what it may hold
	Usual   string `yaml:"usual"`   // of a storage: what it holds unless told
	Secret  string `yaml:"secret"`  // names of what is kept elsewhere

	options map[string]option
	order   []string
}

type option struct{ fixed, optional bool }

var sectionTypes = sync.OnceValue(func() map[string]map[string]*sectionType {
	files := map[string]map[string]*sectionType{}
	if err := yaml.Unmarshal(sectionsYAML, &files); err != nil {
		panic("pvesim: embedded sections: " + err.Error())
	}
	for _, types := range files {
		for _, t := range types {
			t.options = map[string]option{}
			for word := range strings.FieldsSeq(t.Options) {
				name := strings.TrimRight(word, "!?")
				t.options[name] = option{fixed: strings.Contains(word, "!"), optional: strings.Contains(word, "?")}
				t.order = append(t.order, name)
			}
		}
	}
	return files
})

// sectionTypeOf returns what is known of a type; nil for one that there is not.
func sectionTypeOf(file, kind string) *sectionType { return sectionTypes()[file][kind] }

// check holds values that are to be set against what a type of section takes
// (PVE/SectionConfig.pm, check_config).
func (t *sectionType) check(values map[string]string, create bool) error {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		o, known := t.options[k]
		switch {
		case !create && known && o.fixed:
			return die("can't change value of fixed parameter '%s'", k)
		case k == "type": // who calls has compared it
		case !known:
			return die("unexpected property '%s'", k)
		case strings.ContainsAny(values[k], "\r\n"):
			return die("property contains a line feed")
		}
	}
	for _, k := range t.order {
		if _, given := values[k]; create && !given && !t.options[k].optional {
			return die("missing value for required option '%s'", k)
		}
	}
	return nil
}

// checkDelete holds what is to be deleted against it (delete_from_config).
func (t *sectionType) checkDelete(names []string, values map[string]string) error {
	for _, k := range names {
		o, known := t.options[k]
		_, given := values[k]
		switch {
		case !known:
			return die("no such option '%s'", k)
		case !o.optional:
			return die("unable to delete required option '%s'", k)
		case o.fixed:
			return die("unable to delete fixed option '%s'", k)
		case given:
			return die("cannot set and delete property '%s' at the same time!", k)
		}
	}
	return nil
}

// secret reports whether a property is kept where nobody reads it.
func (t *sectionType) secret(name string) bool {
	return slices.Contains(strings.Fields(t.Secret), name)
}
