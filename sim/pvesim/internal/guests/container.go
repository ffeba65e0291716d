package guests

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// containerHandlers show containers. Nothing starts or changes one.
func containerHandlers() map[string]world.Handler {
	const containers = "/nodes/{node}/lxc"
	return map[string]world.Handler{
		"GET " + containers:                    listContainers,
		"GET " + containers + "/{vmid}/config": containerConfig,
	}
}

func container(c *world.Call) (model.Container, error) {
	ct, there := c.State.Containers[schema.Atoi(c.Param("vmid"))]
	if !there || ct.Node != c.Param("node") {
		return ct, answer.Die("Configuration file 'nodes/%s/lxc/%s.conf' does not exist", c.Param("node"), c.Param("vmid"))
	}
	return ct, nil
}

func listContainers(c *world.Call) (any, error) {
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.State.Containers)) {
		ct := c.State.Containers[id]
		if ct.Node == c.Param("node") && access.Can(c.State, c.Who, "/vms/"+strconv.Itoa(id), "VM.Audit") {
			out = append(out, world.ContainerFigures(ct))
		}
	}
	return out, nil
}

// containerConfig has LXC's own lines as pairs (PVE/API2/LXC/Config.pm).
func containerConfig(c *world.Call) (any, error) {
	ct, err := container(c)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"hostname": ct.Name, "arch": "amd64", "memory": 512, "swap": 512}
	for k, v := range ct.Config {
		out[k] = v
	}
	var raw [][]string
	for _, line := range ct.Raw {
		key, value, _ := strings.Cut(line, ": ")
		raw = append(raw, []string{key, value})
	}
	if len(raw) > 0 {
		out["lxc"] = raw
	}
	sum := sha1.Sum([]byte(fmt.Sprintln(ct)))
	out["digest"] = hex.EncodeToString(sum[:])
	return out, nil
}
