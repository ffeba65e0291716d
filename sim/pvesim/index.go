package pvesim

import (
	_ "embed"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// indexesYAML says what the directories of the API answer.
//
//go:embed indexes.yaml
var indexesYAML []byte

// indexHandlers answer for the directories of the API.
func indexHandlers() map[string]world.Handler {
	var indexes map[string]string
	if err := yaml.Unmarshal(indexesYAML, &indexes); err != nil {
		panic("pvesim: embedded indexes: " + err.Error())
	}
	out := map[string]world.Handler{}
	for path, text := range indexes {
		names := strings.Fields(text)
		out["GET "+path] = world.Subdirs(names[0], names[1:]...)
	}
	const status = "GET /nodes/{node}/qemu/{vmid}/status"
	list := out[status]
	out[status] = func(c *world.Call) (any, error) { // this one looks whether there is a machine
		if _, err := c.VM(); err != nil {
			return nil, err
		}
		return list(c)
	}
	return out
}
