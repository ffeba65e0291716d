package pvesim

import (
	_ "embed"

	"github.com/goccy/go-yaml"
)

// nothingYAML says what methods answer about things that there are none of.
//
//go:embed nothing.yaml
var nothingYAML []byte

func nothingHandlers() map[string]handler {
	answers := map[string]any{}
	if err := yaml.Unmarshal(nothingYAML, &answers); err != nil {
		panic("pvesim: embedded nothing.yaml: " + err.Error())
	}
	out := map[string]handler{
		"POST /nodes/{node}/aplinfo": func(*call) (any, error) { return nil, badParam("template", "no such template") },
		"GET /nodes/{node}/disks/smart": func(*call) (any, error) {
			return nil, die("not a valid block device")
		},
		"GET /nodes/{node}/apt/changelog": func(c *call) (any, error) { // there is no repository
			return "E: Unable to locate package " + c.param("name") + "\nE: No packages found\nRC: 100", nil
		},
		"GET /cluster/backup/{id}": func(c *call) (any, error) { return nil, badParam("id", "No such job '"+c.param("id")+"'") },
	}
	for name, answer := range answers {
		out[name] = func(*call) (any, error) { return answer, nil }
	}
	for _, one := range []struct{ path, param, text string }{
		{"/cluster/replication/{id}", "id", "no such replication job '%s'"},
		{"/cluster/sdn/zones/{zone}", "zone", "sdn '%s' does not exist"},
		{"/cluster/sdn/vnets/{vnet}", "vnet", "sdn '%s' does not exist"},
		{"/cluster/sdn/controllers/{controller}", "controller", "sdn '%s' does not exist"},
		{"/cluster/sdn/dns/{dns}", "dns", "sdn '%s' does not exist"},
	} {
		out["GET "+one.path] = func(c *call) (any, error) { return nil, die(one.text, c.param(one.param)) }
	}
	return out
}
