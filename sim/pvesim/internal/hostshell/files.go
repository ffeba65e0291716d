package hostshell

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// folder is where a directory storage keeps what is of one content (PVE/Storage/Plugin.pm,
// get_subdir).
func folder(st *world.Storage, content string) string {
	switch content {
	case "iso":
		return st.Dir() + "/template/iso"
	case "vztmpl":
		return st.Dir() + "/template/cache"
	case "backup":
		return st.Dir() + "/dump"
	case "rootdir":
		return st.Dir() + "/private"
	}
	return st.Dir() + "/" + content
}

// SeeFiles makes volumes of the snippets that somebody who logged in to the node has put
// into its directory storages, and forgets those that were removed there. The lock is held.
func SeeFiles(h *world.Host) {
	if h.Shell == nil {
		return
	}
	for _, st := range h.Stores {
		if !st.FileBased() {
			continue
		}
		there := map[string]bool{}
		h.Shell.Disk().Walk(func(name string, _ fs.FileMode, data []byte) {
			if path.Dir(name) != folder(st, "snippets") {
				return
			}
			id := "snippets/" + path.Base(name)
			there[id] = true
			v := st.Volumes[id]
			if v == nil {
				v = &world.Volume{Name: id, Content: "snippets", Format: "snippet", Made: time.Now(), OnNode: true}
				st.Volumes[id] = v
			}
			if v.OnNode {
				v.Size, v.Data = int64(len(data)), data
			}
		})
		for name, v := range st.Volumes {
			if v.OnNode && !there[name] {
				delete(st.Volumes, name)
			}
		}
	}
}

// pvesmProgram is pvesm, with the path of a volume, which is not a call of the API.
func pvesmProgram(s *world.State, h *world.Host, otherwise guest.HostProgram) guest.HostProgram {
	return func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
		if len(args) != 3 || args[1] != "path" {
			return otherwise(ctx, args, stdin, stdout, stderr)
		}
		storage, name, _ := strings.Cut(args[2], ":")
		s.Mu.Lock()
		st := h.Stores[storage]
		s.Mu.Unlock()
		if st == nil {
			return cliFail(stderr, answer.Die("storage '%s' does not exist", storage))
		}
		_, _ = fmt.Fprintln(stdout, st.Path(name))
		return 0
	}
}

// qmCall is what qm asks of the API, for those of its commands that are one call.
func qmCall(node string, words []string, p request.Params) (cliCall, error) {
	switch {
	case len(words) == 1 && words[0] == "list":
		return cliCall{"GET", "/nodes/" + node + "/qemu", p}, nil
	case len(words) == 2 && words[0] == "set":
		return cliCall{"PUT", "/nodes/" + node + "/qemu/" + words[1] + "/config", p}, nil
	}
	return cliCall{}, notSimulated("qm", words)
}

// importPlace is a place for a disk that hardly anybody uses.
const importPlace = "virtio15"

// qmProgram is qm, with the import of a disk, which is not a call of the API.
func qmProgram(s *world.State, h *world.Host, otherwise guest.HostProgram) guest.HostProgram {
	return func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
		words, p := cliArgs(args[1:])
		if len(words) != 5 || words[0] != "disk" || words[1] != "import" {
			return otherwise(ctx, args, stdin, stdout, stderr)
		}
		volume, err := importUnused(s, "/nodes/"+h.Name+"/qemu/"+words[2]+"/config", words[3], words[4], p.Get("format"))
		if err != nil {
			return cliFail(stderr, err)
		}
		_, _ = fmt.Fprintf(stdout, "importing disk '%s' to VM %s ...\n%s: successfully imported disk '%s'\n", words[3], words[2], volume[0], volume[1])
		return 0
	}
}

// importUnused imports an image and leaves it beside the VM's disks. It returns the key and
// the volume.
func importUnused(s *world.State, config, image, storage, format string) (unused [2]string, err error) {
	drive := storage + ":0,import-from=" + image
	if format != "" {
		drive += ",format=" + format
	}
	if _, err := asRoot(s, "PUT", config, request.Params{importPlace: {drive}}); err != nil {
		return unused, err
	}
	now, err := configAt(s, config)
	if err != nil {
		return unused, err
	}
	unused[1], _, _ = strings.Cut(now[importPlace], ",")
	if _, err := asRoot(s, "PUT", config, request.Params{"delete": {importPlace}}); err != nil {
		return unused, err
	}
	now, err = configAt(s, config)
	for key, value := range now {
		if strings.HasPrefix(key, "unused") && value == unused[1] {
			unused[0] = key
		}
	}
	return unused, err
}

// configAt returns the options of a VM, as text.
func configAt(s *world.State, config string) (map[string]string, error) {
	data, err := asRoot(s, "GET", config, request.Params{})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	var all struct{ Data map[string]any }
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for key, value := range all.Data {
		out[key] = fmt.Sprint(value)
	}
	return out, nil
}
