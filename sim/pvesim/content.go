package pvesim

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest"
)

// allocateVolume makes an empty disk image, which no configuration knows yet.
func (c *call) allocateVolume() (any, error) {
	st, err := c.storage()
	if err != nil {
		return nil, err
	}
	vmid, name, format := c.p.int("vmid", 0), c.param("filename"), c.param("format")
	size, err := sizeOfImage(c.param("size"))
	if err != nil {
		return nil, err
	}
	if ext := strings.TrimPrefix(path.Ext(name), "."); ext == "raw" || ext == "qcow2" || ext == "vmdk" {
		if format != "" && format != ext {
			return nil, badParam("format", fmt.Sprintf("different storage formats (%s != %s)", format, ext))
		}
		format = ext
	}
	if format == "" {
		format = "raw"
	}
	if err := st.ready(); err != nil {
		return nil, err
	}
	full := name
	switch {
	case st.fileBased():
		is, err := imageFormat(name)
		if err != nil {
			return nil, err
		}
		if is != format {
			return nil, die("illegal name '%s' - wrong extension for format ('%s != '%s')", name, is, format)
		}
		full = strconv.Itoa(vmid) + "/" + name
	case !strings.HasPrefix(name, fmt.Sprintf("vm-%d-", vmid)):
		return nil, die("illegal name '%s' - should be 'vm-%d-*'", name, vmid)
	}
	if st.volumes[full] != nil {
		return nil, die("disk image '%s' already exists", st.path(full))
	}
	if st.fileBased() && format == "subvol" && size != 0 {
		return nil, die("storage does not support subvol quotas")
	}
	if err := c.worker().allocate(st, full, vmid, size, nil); err != nil {
		return nil, err
	}
	return st.Name + ":" + full, nil
}

var newImageSize = regexp.MustCompile(`^(\d+)([MG]?)$`)

// sizeOfImage reads the size of an image to be made: a bare number counts KiB.
func sizeOfImage(s string) (int64, error) {
	m := newImageSize.FindStringSubmatch(s)
	if m == nil {
		return 0, badParam("size", "unable to parse size '"+s+"'")
	}
	unit := map[string]string{"": "K", "M": "M", "G": "G"}[m[2]]
	return parseSize(m[1] + unit), nil
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
	about, err := st.parseVolume(name)
	if err != nil {
		return nil, err
	}
	v := st.volumes[name]
	switch {
	case c.p.has("notes") && about.content != "backup":
		return nil, die("only backups can have notes")
	case c.p.has("protected") && about.content != "backup":
		return nil, die("only backups support attribute 'protected'")
	case v == nil && c.p.has("notes") && !c.p.has("protected"): // they are in a file of their own
		return nil, nil
	case v == nil:
		return nil, die("volume '%s:%s' does not exist", st.Name, name)
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
	var status *guest.StatusError
	switch {
	case errors.As(err, &status):
		return nil, die("invalid server response: '%d %s'", status.Code, status.Reason)
	case errors.Is(err, guest.ErrNotFound):
		return nil, die("invalid server response: '404 Not Found'")
	case errors.Is(err, guest.ErrRefused):
		return nil, die("invalid server response: '500 Can't connect to %s (Connection refused)'", withPort(u))
	case err != nil:
		return nil, die("invalid server response: '500 %v'", err)
	}
	out := map[string]any{"size": len(data), "mimetype": mimeOf(u.Path)}
	if name := path.Base(u.Path); name != "." && name != "/" {
		out["filename"] = name
	}
	return out, nil
}

// withPort is a URL's server as programs name it.
func withPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[u.Scheme == "https"]
	}
	return u.Hostname() + ":" + port
}

// mimeOf is what web servers say that a file is.
func mimeOf(name string) string {
	if strings.HasSuffix(name, ".iso") {
		return "application/x-iso9660-image"
	}
	return "application/octet-stream"
}
