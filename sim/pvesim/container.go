package pvesim

func containerHandlers() map[string]handler {
	const containers = "/nodes/{node}/lxc"
	gone := func(c *call) (any, error) {
		return nil, die("Configuration file 'nodes/%s/lxc/%s.conf' does not exist", c.param("node"), c.param("vmid"))
	}
	return map[string]handler{ // there are none
		"GET " + containers:                            func(*call) (any, error) { return []any{}, nil },
		"GET " + containers + "/{vmid}":                gone,
		"GET " + containers + "/{vmid}/config":         gone,
		"GET " + containers + "/{vmid}/status/current": gone,
	}
}
