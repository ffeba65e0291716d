package pvesim

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func nodeConfigHandlers() map[string]handler {
	const node = "/nodes/{node}"
	return map[string]handler{
		"GET " + node + "/config":          (*call).nodeConfig,
		"PUT " + node + "/config":          (*call).setNodeConfig,
		"GET " + node + "/dns":             (*call).nodeDNS,
		"PUT " + node + "/dns":             (*call).setNodeDNS,
		"GET " + node + "/hosts":           (*call).nodeHosts,
		"POST " + node + "/hosts":          (*call).setNodeHosts,
		"GET " + node + "/time":            (*call).nodeTime,
		"PUT " + node + "/time":            (*call).setTimezone,
		"POST " + node + "/wakeonlan":      (*call).wake,
		"DELETE " + node + "/subscription": func(*call) (any, error) { return nil, nil },
		"GET " + node + "/netstat":         (*call).netstat,
	}
}

// nodeConfig is a node's own configuration, all of it as text. Notes end with a line feed.
func (c *call) nodeConfig() (any, error) {
	out := map[string]any{}
	set := c.host().settings
	for k, v := range set.config {
		out[k] = v
		if k == "description" {
			out[k] = strings.TrimRight(v, "\n") + "\n"
		}
	}
	if set.config != nil {
		out["digest"] = digestOf(set.config)
	}
	if p := c.param("property"); p != "" {
		maps.DeleteFunc(out, func(k string, _ any) bool { return k != p })
	}
	return out, nil
}

func (c *call) setNodeConfig() (any, error) {
	h := c.host()
	if err := c.checkDigest(digestOf(h.settings.config)); err != nil {
		return nil, err
	}
	if h.settings.config == nil {
		h.settings.config = map[string]string{}
	}
	maps.Copy(h.settings.config, c.section())
	for _, k := range splitList(c.param("delete")) {
		delete(h.settings.config, k)
	}
	if len(h.settings.config) == 0 { // there is no such file any more
		h.settings.config = nil
	}
	return nil, nil
}

func (c *call) nodeDNS() (any, error) { return c.host().nameService(), nil }

// nameService is what is in a host's resolv.conf.
func (h *host) nameService() map[string]string {
	out := map[string]string{"search": h.domain()}
	if h.settings.dns == nil {
		for i, server := range h.resolvers() {
			out["dns"+strconv.Itoa(i+1)] = server
		}
	}
	maps.Copy(out, h.settings.dns)
	return out
}

func (h *host) resolvers() []string {
	if h.Resolvers == nil {
		return []string{"192.0.2.53"}
	}
	return h.Resolvers
}

func (c *call) setNodeDNS() (any, error) {
	c.host().settings.dns = c.section()
	return nil, nil
}

func (c *call) nodeHosts() (any, error) {
	text := c.host().settings.hosts
	if text == "" {
		var b strings.Builder
		b.WriteString("127.0.0.1 localhost.localdomain localhost\n")
		for _, node := range c.s.nodes() {
			fmt.Fprintf(&b, "%s %s.%s %s\n", c.s.ip(node), node, c.s.hosts[node].domain(), node)
		}
		text = b.String()
	}
	return map[string]any{"data": text, "digest": digestOf(text)}, nil
}

func (c *call) setNodeHosts() (any, error) {
	now, err := c.nodeHosts()
	if err != nil {
		return nil, err
	}
	digest, _ := now.(map[string]any)["digest"].(string)
	if err := c.checkDigest(digest); err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(c.param("data"), "\n") { // PVE/INotify.pm, write_etc_hosts
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if _, err := netip.ParseAddr(words[0]); err != nil {
			return nil, badParam("data", "Invalid IP '"+words[0]+"'")
		}
		for _, name := range words[1:] {
			if !hostName.MatchString(name) {
				return nil, badParam("data", "Invalid Hostname '"+name+"'")
			}
		}
	}
	c.host().settings.hosts = c.param("data")
	return nil, nil
}

var hostName = regexp.MustCompile(`^[.\-a-zA-Z0-9]+$`)

func (c *call) nodeTime() (any, error) {
	now, zone := time.Now().Add(c.host().ClockOffset), c.host().settings.timezone
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

func (c *call) setTimezone() (any, error) {
	if _, err := time.LoadLocation(c.param("timezone")); err != nil || c.param("timezone") == "" {
		return nil, badParam("timezone", "No such timezone")
	}
	c.host().settings.timezone = c.param("timezone")
	return nil, nil
}

// wake is what the first node, which answers, cannot do to itself.
func (c *call) wake() (any, error) {
	node := c.param("node")
	if node == "localhost" || node == c.s.nodes()[0] {
		return nil, die("'%s' is local node, cannot wake my self!", node)
	}
	if c.host() == nil {
		return nil, die("no such cluster node '%s'", node)
	}
	props := map[string]string{}
	for part := range strings.SplitSeq(c.host().settings.config["wakeonlan"], ",") {
		k, v, full := strings.Cut(part, "=")
		if !full {
			k, v = "mac", part
		}
		props[k] = v
	}
	if props["mac"] == "" {
		return nil, die("No wake on LAN MAC address defined for '%s'!", node)
	}
	return props["mac"], nil
}

// netstat is the traffic of the machines that run, as text; none of it is true.
func (c *call) netstat() (any, error) {
	out := []any{}
	for _, v := range c.s.sorted() {
		if !v.running || v.node != c.param("node") {
			continue
		}
		for i := range numbered["net"] + 1 {
			if net := "net" + strconv.Itoa(i); v.conf[net] != "" {
				out = append(out, map[string]any{"vmid": strconv.Itoa(v.id), "dev": net, "in": "0", "out": "0"})
			}
		}
	}
	return out, nil
}
