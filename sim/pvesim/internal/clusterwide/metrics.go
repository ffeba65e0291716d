package clusterwide

import (
	"maps"
	"slices"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Metric servers are kept, and nothing is sent to them.

func metricHandlers() map[string]world.Handler {
	const one = "/cluster/metrics/server/{id}"
	return map[string]world.Handler{
		"GET /cluster/metrics/server": listMetrics,
		"GET " + one:                  getMetrics,
		"POST " + one:                 createMetrics,
		"PUT " + one:                  updateMetrics,
		"DELETE " + one:               deleteMetrics,
	}
}

func listMetrics(c *world.Call) (any, error) {
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.State.Metrics)) {
		m := c.State.Metrics[id]
		e := map[string]any{"id": id, "disable": max(0, schema.Atoi(m["disable"])), "type": m["type"], "server": m["server"], "port": nil}
		if m["port"] != "" {
			e["port"] = schema.Atoi(m["port"])
		}
		out = append(out, e)
	}
	return out, nil
}

func getMetrics(c *world.Call) (any, error) {
	m := c.State.Metrics[c.Param("id")]
	if m == nil {
		return nil, answer.Die("status server entry '%s' does not exist", c.Param("id"))
	}
	out := map[string]any{}
	for k, v := range m {
		out[k] = c.State.TypedAs("POST /cluster/metrics/server/{id}", k, v)
	}
	return out, nil
}

func createMetrics(c *world.Call) (any, error) {
	id := c.Param("id")
	if c.State.Metrics[id] != nil {
		return nil, answer.Die("Metric server '%s' already exists", id)
	}
	section := c.Section("id", "token")
	if err := schema.SectionOf("metrics", c.Param("type")).Check(section, true); err != nil {
		return nil, err
	}
	if c.State.Metrics == nil {
		c.State.Metrics = map[string]map[string]string{}
	}
	c.State.Metrics[id] = world.WithoutEmpty(section)
	return nil, nil
}

func updateMetrics(c *world.Call) (any, error) {
	if err := c.CheckDigest(world.DigestOf(c.State.Metrics)); err != nil {
		return nil, err
	}
	m := c.State.Metrics[c.Param("id")]
	if m == nil {
		return nil, answer.Die("no such server '%s'", c.Param("id"))
	}
	section, remove := c.Section("id", "token"), schema.SplitList(c.Param("delete"))
	about := schema.SectionOf("metrics", m["type"])
	if err := about.Check(section, false); err != nil {
		return nil, err
	}
	if err := about.CheckDelete(remove, section); err != nil {
		return nil, err
	}
	for k, v := range section {
		m[k] = v
	}
	for _, k := range remove {
		delete(m, k)
	}
	world.WithoutEmpty(m)
	return nil, nil
}

func deleteMetrics(c *world.Call) (any, error) {
	if c.State.Metrics[c.Param("id")] == nil {
		return nil, answer.Die("cannot lookup undefined type! at /usr/share/perl5/PVE/API2/Cluster/MetricServer.pm line 295.")
	}
	delete(c.State.Metrics, c.Param("id"))
	return nil, nil
}
