package pvesim

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/pvesim/guest"
)

// allocateVolume makes an empty disk image, which no configuration knows yet.
func (c *call) allocateVolume() (any, error) {
	st, err := c.storage()
	if err != nil {
		return nil, err
	}
	vmid, name, format := c.p.int("vmid", 0), c.param("filename"), c.param("format")
	if ext := strings.TrimPrefix(path.Ext(name), "."); ext == "raw" || ext == "qcow2" || ext == "vmdk" {
		if format != "" && format != ext {
			return nil, badParam("format", fmt.Sprintf("different storage formats (%s != %s)", format, ext))
		}
		format, name = ext, strings.TrimSuffix(name, "."+ext)
	}
	if format == "" {
		format = "raw"
	}
	if !strings.HasPrefix(name, fmt.Sprintf("vm-%d-", vmid)) {
		return nil, die("illegal name '%s' - should be 'vm-%d-*'", name, vmid)
	}
	size := parseSize(strings.TrimSuffix(c.param("size"), "B"))
	if last := c.param("size"); last != "" && last[len(last)-1] >= '0' && last[len(last)-1] <= '9' {
		size = parseSize(last + "K") // a bare number counts KiB
	}
	full := st.full(vmid, name, format)
	if err := c.worker().allocate(st, full, vmid, size, nil); err != nil {
		return nil, err
	}
	return st.Name + ":" + full, nil
}

// describeVolume sets the notes and the protection of a backup; other volumes have
// neither.
func (c *call) describeVolume() (any, error) {
	st, name, err := c.volumeOf()
	if err != nil {
		return nil, err
	}
	if err := c.s.need(c.who, "/storage/"+st.Name, "Datastore.Allocate"); err != nil {
		return nil, err
	}
	v := st.volumes[name]
	switch {
	case v == nil:
		return nil, die("volume '%s:%s' does not exist", st.Name, name)
	case c.p.has("notes") && v.content != "backup":
		return nil, die("setting notes is not supported for '%s:%s'", st.Name, name)
	case c.p.has("protected") && v.content != "backup":
		return nil, die("updating attribute 'protected' is not supported for '%s:%s'", st.Name, name)
	}
	if c.p.has("notes") {
		v.notes = c.param("notes")
	}
	if c.p.has("protected") {
		v.protected = c.p.bool("protected")
	}
	return nil, nil
}

// copyVolumeTo copies a file or an image to another volume, also of another node.
func (c *call) copyVolumeTo() (any, error) {
	st, name, err := c.volumeOf()
	if err != nil {
		return nil, err
	}
	node := c.param("target_node")
	if node == "" {
		node = c.param("node")
	}
	h := c.s.hosts[node]
	if h == nil {
		return nil, die("no such node '%s'", node)
	}
	to, target := h.volume(c.param("target"))
	if to == nil {
		to, target = h.storages[st.Name], c.param("target")
	}
	return c.startTask("imgcopy", "", func(w worker) error {
		source := st.volumes[name]
		if source == nil {
			return die("volume '%s:%s' does not exist", st.Name, name)
		}
		copied := *source
		copied.name, copied.base, copied.clones = target, nil, 0
		if below := source.contents(); below != nil {
			copied.disk = below.Clone()
		}
		if err := w.allocateIn(to, &copied, w.s.opts.Timing.AllocateDisk, nil); err != nil {
			return err
		}
		w.log("DEBUG: end copy %s:%s to %s:%s", st.Name, name, to.Name, target)
		return w.copyData(source.size)
	})
}

// askURL asks a web server about a file: its name, size and type.
func (c *call) askURL() (any, error) {
	raw := c.param("url")
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil, badParam("url", "value does not match the regex pattern")
	}
	var data []byte
	c.s.outside(func() { data, err = c.s.opts.Internet(raw) })
	switch {
	case errors.Is(err, guest.ErrNotFound):
		return nil, die("invalid server response: '404 Not Found'")
	case err != nil:
		return nil, die("invalid server response: '500 %v'", err)
	}
	return map[string]any{"filename": path.Base(u.Path), "size": len(data), "mimetype": "application/octet-stream"}, nil
}
