package storages

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// allocateVolume makes an empty disk image, which no configuration knows yet.
func allocateVolume(c *world.Call) (any, error) {
	st, err := c.Storage()
	if err != nil {
		return nil, err
	}
	vmid, name, format := c.Params.Int("vmid", 0), c.Param("filename"), c.Param("format")
	size, err := sizeOfImage(c.Param("size"))
	if err != nil {
		return nil, err
	}
	if ext := strings.TrimPrefix(path.Ext(name), "."); ext == "raw" || ext == "qcow2" || ext == "vmdk" {
		if format != "" && format != ext {
			return nil, answer.BadParam("format", fmt.Sprintf("different storage formats (%s != %s)", format, ext))
		}
		format = ext
	}
	if format == "" {
		format = "raw"
	}
	if err := st.Ready(); err != nil {
		return nil, err
	}
	full := name
	switch {
	case st.FileBased():
		is, err := world.ImageFormat(name)
		if err != nil {
			return nil, err
		}
		if is != format {
			return nil, answer.Die("illegal name '%s' - wrong extension for format ('%s != '%s')", name, is, format)
		}
		full = strconv.Itoa(vmid) + "/" + name
	case !strings.HasPrefix(name, fmt.Sprintf("vm-%d-", vmid)):
		return nil, answer.Die("illegal name '%s' - should be 'vm-%d-*'", name, vmid)
	}
	if st.Volumes[full] != nil {
		return nil, answer.Die("disk image '%s' already exists", st.Path(full))
	}
	if st.FileBased() && format == "subvol" && size != 0 {
		return nil, answer.Die("storage does not support subvol quotas")
	}
	if err := Allocate(c.Worker(), st, full, vmid, size, nil); err != nil {
		return nil, err
	}
	return st.Name + ":" + full, nil
}

var newImageSize = regexp.MustCompile(`^(\d+)([MG]?)$`)

// sizeOfImage reads the size of an image to be made: a bare number counts KiB.
func sizeOfImage(s string) (int64, error) {
	m := newImageSize.FindStringSubmatch(s)
	if m == nil {
		return 0, answer.BadParam("size", "unable to parse size '"+s+"'")
	}
	unit := map[string]string{"": "K", "M": "M", "G": "G"}[m[2]]
	return schema.ParseSize(m[1] + unit), nil
}

// describeVolume sets the notes and the protection of a backup; other volumes have
// neither.
func describeVolume(c *world.Call) (any, error) {
	st, name, err := volumeOf(c)
	if err != nil {
		return nil, err
	}
	if err := access.Need(c.State, c.Who, "/storage/"+st.Name, "Datastore.Allocate"); err != nil {
		return nil, err
	}
	about, err := st.ParseVolume(name)
	if err != nil {
		return nil, err
	}
	v := st.Volumes[name]
	switch {
	case c.Params.Has("notes") && about.Content != "backup":
		return nil, answer.Die("only backups can have notes")
	case c.Params.Has("protected") && about.Content != "backup":
		return nil, answer.Die("only backups support attribute 'protected'")
	case v == nil && c.Params.Has("notes") && !c.Params.Has("protected"): // they are in a file of their own
		return nil, nil
	case v == nil:
		return nil, answer.Die("volume '%s:%s' does not exist", st.Name, name)
	}
	return nil, nil
}

// agentRedirects is how many LWP::UserAgent follows.
const agentRedirects = 7

// askURL asks a web server about a file: its name, size and type.
func askURL(c *world.Call) (any, error) {
	raw := c.Param("url")
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil, answer.BadParam("url", "value does not match the regex pattern")
	}
	name := path.Base(u.Path)
	var data []byte
	var status *guest.StatusError
	for range agentRedirects + 1 {
		c.State.WithoutLock(func() { data, err = c.State.Options.Internet(u.String()) })
		if !errors.As(err, &status) {
			break
		}
		next, leads := status.Next(u.String())
		if !leads {
			break
		}
		u, _ = url.Parse(next)
	}
	switch {
	case errors.As(err, &status):
		return nil, answer.Die("invalid server response: '%d %s'", status.Code, status.Reason)
	case errors.Is(err, guest.ErrNotFound):
		return nil, answer.Die("invalid server response: '404 Not Found'")
	case errors.Is(err, guest.ErrRefused):
		return nil, answer.Die("invalid server response: '500 Can't connect to %s (Connection refused)'", withPort(u))
	case err != nil:
		return nil, answer.Die("invalid server response: '500 %v'", err)
	}
	out := map[string]any{"size": len(data), "mimetype": mimeOf(u.Path)}
	if name != "." && name != "/" {
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
