package pvesim

// mediated lists the kinds of mediated devices that a card can make.
func (c *call) mediated() (any, error) {
	id := c.param("pci-id-or-mapping")
	d := c.host().devices[id]
	if m := c.s.mappings[id]; m != nil {
		for _, e := range m.entries {
			if p := c.s.entryProps(e); p["node"] == c.param("node") {
				if found := c.host().functions(p["path"]); len(found) > 0 {
					d = found[0]
				}
			}
		}
	}
	if d == nil || !d.MDev {
		return []any{}, nil
	}
	return []any{map[string]any{"type": "nvidia-469", "name": "GRID A100-4C", "description": "num_heads=1, frl_config=60, framebuffer=4096M, max_resolution=4096x2160, max_instance=10", "available": 10}}, nil
}
