package site

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/pvesim"
)

// presets are the models that have a name.
func presets() map[string]func() pvesim.Model {
	return map[string]func() pvesim.Model{
		"eight-a100":  pvesim.EightA100,
		"one-gpu":     pvesim.OneGPU,
		"mixed-hosts": pvesim.TwoHosts,
	}
}

// Models are the names of the presets, in order.
func Models() []string { return slices.Sorted(maps.Keys(presets())) }

// loadModel finds a preset by name, or reads a file where the name looks like one.
func loadModel(name string) (pvesim.Model, error) {
	if preset, ok := presets()[name]; ok {
		return preset(), nil
	}
	if !strings.HasSuffix(name, ".yaml") && !strings.HasSuffix(name, ".yml") {
		return pvesim.Model{}, fmt.Errorf("no model %q: there are %s, or name a YAML file", name, strings.Join(Models(), ", "))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return pvesim.Model{}, fmt.Errorf("model: %w", err)
	}
	return pvesim.ParseModel(name, data)
}
