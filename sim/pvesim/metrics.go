package pvesim

import (
	"maps"
	"slices"
)

// Metric servers are kept, and nothing is sent to them.

func metricHandlers() map[string]handler {
	const one = "/cluster/metrics/server/{id}"
	return map[string]handler{
		"GET /cluster/metrics/server": (*call).listMetrics,
		"GET " + one:                  (*call).getMetrics,
		"POST " + one:                 (*call).createMetrics,
		"PUT " + one:                  (*call).updateMetrics,
		"DELETE " + one:               (*call).deleteMetrics,
	}
}

func (c *call) listMetrics() (any, error) {
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.s.metrics)) {
		m := c.s.metrics[id]
		e := map[string]any{"id": id, "disable": max(0, atoi(m["disable"])), "type": m["type"], "server": m["server"], "port": nil}
		if m["port"] != "" {
			e["port"] = atoi(m["port"])
		}
		out = append(out, e)
	}
	return out, nil
}

func (c *call) getMetrics() (any, error) {
	m := c.s.metrics[c.param("id")]
	if m == nil {
		return nil, die("status server entry '%s' does not exist", c.param("id"))
	}
	out := map[string]any{}
	for k, v := range m {
		out[k] = c.s.typedAs("POST /cluster/metrics/server/{id}", k, v)
	}
	return out, nil
}

func (c *call) createMetrics() (any, error) {
	id := c.param("id")
	if c.s.metrics[id] != nil {
		return nil, die("Metric server '%s' already exists", id)
	}
	section := c.section("id", "token")
	if err := sectionTypeOf("metrics", c.param("type")).check(section, true); err != nil {
		return nil, err
	}
	if c.s.metrics == nil {
		c.s.metrics = map[string]map[string]string{}
	}
	c.s.metrics[id] = withoutEmpty(section)
	return nil, nil
}

func (c *call) updateMetrics() (any, error) {
	if err := c.checkDigest(digestOf(c.s.metrics)); err != nil {
		return nil, err
	}
	m := c.s.metrics[c.param("id")]
	if m == nil {
		return nil, die("no such server '%s'", c.param("id"))
	}
	section, remove := c.section("id", "token"), splitList(c.param("delete"))
	about := sectionTypeOf("metrics", m["type"])
	if err := about.check(section, false); err != nil {
		return nil, err
	}
	if err := about.checkDelete(remove, section); err != nil {
		return nil, err
	}
	for k, v := range section {
		m[k] = v
	}
	for _, k := range remove {
		delete(m, k)
	}
	withoutEmpty(m)
	return nil, nil
}

func (c *call) deleteMetrics() (any, error) {
	if c.s.metrics[c.param("id")] == nil {
		return nil, die("cannot lookup undefined type! at /usr/share/perl5/PVE/API2/Cluster/MetricServer.pm line 295.")
	}
	delete(c.s.metrics, c.param("id"))
	return nil, nil
}
