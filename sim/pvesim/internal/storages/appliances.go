package storages

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// applianceList is the host's list of container templates, as `pveam update` gets it. It
// is there only where the model has it among the host's files, as on a host that has
// never been on the internet.
const (
	applianceList   = "/var/lib/pve-manager/apl-info/download.proxmox.com"
	applianceSource = "http://download.proxmox.com/images"
)

var applianceField = regexp.MustCompile(`^([^:]+):\s*(.*\S)\s*$`)

// appliances reads the list (PVE/APLInfo.pm, read_aplinfo_from_fh), by template.
func appliances(h *world.Host) map[string]map[string]string {
	text := h.OS.Files[applianceList]
	if h.Shell != nil {
		if data, err := h.Shell.Disk().ReadFile(applianceList); err == nil {
			text = string(data)
		}
	}
	out := map[string]map[string]string{}
	for record := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if a := readAppliance(record); a != nil {
			out[a["template"]] = a
		}
	}
	return out
}

// readAppliance is one record; nil for one that is not complete.
func readAppliance(record string) map[string]string {
	a := map[string]string{"section": "unknown"}
	field := ""
	for line := range strings.SplitSeq(record, "\n") {
		m := applianceField.FindStringSubmatch(line)
		switch {
		case field == "description" && strings.HasPrefix(line, " "):
			a[field] = strings.TrimSpace(a[field] + " " + strings.TrimSpace(line))
		case m == nil:
			return nil
		default:
			if field = strings.ToLower(m[1]); field == "description" { // its first line is the headline
				a["headline"], a[field] = m[2], ""
				continue
			}
			a[field] = m[2]
		}
	}
	for _, name := range []string{"package", "type", "os", "version", "infopage", "location"} {
		if a[name] == "" {
			return nil
		}
	}
	a["source"], a["template"] = applianceSource, path.Base(a["location"])
	if !strings.Contains(a["location"], "://") {
		a["location"] = applianceSource + "/" + a["location"]
	}
	return a
}

func listAppliances(c *world.Call) (any, error) {
	out := []any{}
	all := appliances(c.Host())
	for _, template := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[template])
	}
	return out, nil
}

func downloadAppliance(c *world.Call) (any, error) {
	template := c.Param("template")
	a := appliances(c.Host())[template]
	if a == nil {
		return nil, answer.BadParam("template", "no such template")
	}
	st, err := c.Storage()
	if err == nil {
		err = st.Ready()
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(st.Content, "vztmpl") {
		return nil, answer.Die("storage '%s' does not support templates", st.Name)
	}
	return c.StartTask("download", template, func(w world.Worker) error {
		target := st.Path("vztmpl/" + template)
		w.Log("downloading %s to %s", a["location"], target)
		algorithm := "sha512"
		if a["sha512sum"] == "" {
			algorithm = "md5"
		}
		want := a[algorithm+"sum"]
		if old := st.Volumes["vztmpl/"+template]; old != nil {
			return keepFile(w, old, target, algorithm, want)
		}
		data, err := fetch(w, a["location"], target)
		if err != nil {
			return err
		}
		if err := verify(w, data, algorithm, want); err != nil {
			return err
		}
		st.PutFile("vztmpl", template, data)
		w.Log("download of '%s' to '%s' finished", a["location"], target)
		return nil
	})
}
