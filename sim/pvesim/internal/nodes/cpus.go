package nodes

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// cpusYAML names CPU models and flags.
//
//go:embed cpus.yaml
var cpusYAML []byte

type cpuFacts struct {
	Models map[string]string `yaml:"models"` // names by maker
	Flags  string            `yaml:"flags"`
}

var cpus = sync.OnceValue(func() cpuFacts {
	var f cpuFacts
	if err := yaml.Unmarshal(cpusYAML, &f); err != nil {
		panic("pvesim: embedded cpus.yaml: " + err.Error())
	}
	return f
})

func cpuModels(c *world.Call) (any, error) {
	out := []any{}
	for _, vendor := range slices.Sorted(maps.Keys(cpus().Models)) {
		for name := range strings.FieldsSeq(cpus().Models[vendor]) {
			e := map[string]any{"name": name, "vendor": vendor, "custom": 0}
			if strings.HasPrefix(name, "x86-64-") {
				e["abstract"] = 1
			}
			out = append(out, e)
		}
	}
	return out, nil
}

func cpuFlags(c *world.Call) (any, error) {
	out := []any{}
	for name := range strings.FieldsSeq(cpus().Flags) {
		out = append(out, map[string]any{"name": name, "description": name, "supported-on": c.State.Nodes()})
	}
	return out, nil
}
