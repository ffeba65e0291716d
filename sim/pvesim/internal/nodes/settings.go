package nodes

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func nodeConfigHandlers() map[string]world.Handler {
	const node = "/nodes/{node}"
	return map[string]world.Handler{
		"GET " + node + "/config":          nodeConfig,
		"PUT " + node + "/config":          setNodeConfig,
		"GET " + node + "/dns":             nodeDNS,
		"PUT " + node + "/dns":             setNodeDNS,
		"GET " + node + "/hosts":           nodeHosts,
		"POST " + node + "/hosts":          setNodeHosts,
		"GET " + node + "/time":            nodeTime,
		"PUT " + node + "/time":            setTimezone,
		"POST " + node + "/wakeonlan":      wake,
		"DELETE " + node + "/subscription": func(*world.Call) (any, error) { return nil, nil },
		"GET " + node + "/netstat":         netstat,
	}
}

// nodeConfig is a node's own configuration, all of it as text. Notes end with a line feed.
func nodeConfig(c *world.Call) (any, error) {
	out := map[string]any{}
	set := c.Host().Settings
	for k, v := range set.Config {
		out[k] = v
		if k == "description" {
			out[k] = strings.TrimRight(v, "\n") + "\n"
		}
	}
	if set.Config != nil {
		out["digest"] = world.DigestOf(set.Config)
	}
	if p := c.Param("property"); p != "" {
		maps.DeleteFunc(out, func(k string, _ any) bool { return k != p })
	}
	return out, nil
}

func setNodeConfig(c *world.Call) (any, error) {
	h := c.Host()
	if err := c.CheckDigest(world.DigestOf(h.Settings.Config)); err != nil {
		return nil, err
	}
	if h.Settings.Config == nil {
		h.Settings.Config = map[string]string{}
	}
	maps.Copy(h.Settings.Config, c.Section())
	for _, k := range schema.SplitList(c.Param("delete")) {
		delete(h.Settings.Config, k)
	}
	if len(h.Settings.Config) == 0 { // there is no such file any more
		h.Settings.Config = nil
	}
	return nil, nil
}

func nodeDNS(c *world.Call) (any, error) { return NameService(c.Host()), nil }

// NameService is what is in a host's resolv.conf.
func NameService(h *world.Host) map[string]string {
	out := map[string]string{"search": h.SearchDomain()}
	if h.Settings.DNS == nil {
		for i, server := range resolvers(h) {
			out["dns"+strconv.Itoa(i+1)] = server
		}
	}
	maps.Copy(out, h.Settings.DNS)
	return out
}

func resolvers(h *world.Host) []string {
	if h.Resolvers == nil {
		return []string{"192.0.2.53"}
	}
	return h.Resolvers
}

func setNodeDNS(c *world.Call) (any, error) {
	c.Host().Settings.DNS = c.Section()
	return nil, nil
}

func nodeHosts(c *world.Call) (any, error) {
	text := c.Host().Settings.Hosts
	if text == "" {
		var b strings.Builder
		b.WriteString("127.0.0.1 localhost.localdomain localhost\n")
		for _, node := range c.State.Nodes() {
			fmt.Fprintf(&b, "%s %s.%s %s\n", c.State.IP(node), node, c.State.Hosts[node].SearchDomain(), node)
		}
		text = b.String()
	}
	return map[string]any{"data": text, "digest": world.DigestOf(text)}, nil
}

func setNodeHosts(c *world.Call) (any, error) {
	now, err := nodeHosts(c)
	if err != nil {
		return nil, err
	}
	digest, _ := now.(map[string]any)["digest"].(string)
	if err := c.CheckDigest(digest); err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(c.Param("data"), "\n") { // PVE/INotify.pm, write_etc_hosts
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if _, err := netip.ParseAddr(words[0]); err != nil {
			return nil, answer.BadParam("data", "Invalid IP '"+words[0]+"'")
		}
		for _, name := range words[1:] {
			if !hostName.MatchString(name) {
				return nil, answer.BadParam("data", "Invalid Hostname '"+name+"'")
			}
		}
	}
	c.Host().Settings.Hosts = c.Param("data")
	return nil, nil
}

var hostName = regexp.MustCompile(`^[.\-a-zA-Z0-9]+$`)

func nodeTime(c *world.Call) (any, error) {
	now, zone := time.Now().Add(c.Host().ClockOffset), c.Host().Settings.Timezone
	local := now.Unix()
	if place, err := time.LoadLocation(zone); err == nil {
		_, offset := now.In(place).Zone()
		local += int64(offset)
	}
	if zone == "" {
		zone = "Etc/UTC"
	}
	return map[string]any{"timezone": zone, "time": now.Unix(), "localtime": local}, nil
}

func setTimezone(c *world.Call) (any, error) {
	if _, err := time.LoadLocation(c.Param("timezone")); err != nil || c.Param("timezone") == "" {
		return nil, answer.BadParam("timezone", "No such timezone")
	}
	c.Host().Settings.Timezone = c.Param("timezone")
	return nil, nil
}

// wake is what the first node, which answers, cannot do to itself.
func wake(c *world.Call) (any, error) {
	node := c.Param("node")
	if node == "localhost" || node == c.State.Nodes()[0] {
		return nil, answer.Die("'%s' is local node, cannot wake my self!", node)
	}
	if c.Host() == nil {
		return nil, answer.Die("no such cluster node '%s'", node)
	}
	props := map[string]string{}
	for part := range strings.SplitSeq(c.Host().Settings.Config["wakeonlan"], ",") {
		k, v, full := strings.Cut(part, "=")
		if !full {
			k, v = "mac", part
		}
		props[k] = v
	}
	if props["mac"] == "" {
		return nil, answer.Die("No wake on LAN MAC address defined for '%s'!", node)
	}
	return props["mac"], nil
}

// netstat is the traffic of the machines that run, as text; none of it is true.
func netstat(c *world.Call) (any, error) {
	out := []any{}
	for _, v := range c.State.VMsByID() {
		if !v.Running || v.Node != c.Param("node") {
			continue
		}
		for i := range schema.Numbered["net"] + 1 {
			if net := "net" + strconv.Itoa(i); v.Conf[net] != "" {
				out = append(out, map[string]any{"vmid": strconv.Itoa(v.ID), "dev": net, "in": "0", "out": "0"})
			}
		}
	}
	return out, nil
}
