package pvesim

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
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
func (h *host) appliances() map[string]map[string]string {
	text := h.OS.Files[applianceList]
	if h.shell != nil {
		if data, err := h.shell.Disk().ReadFile(applianceList); err == nil {
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

func (c *call) listAppliances() (any, error) {
	out := []any{}
	all := c.host().appliances()
	for _, template := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[template])
	}
	return out, nil
}

func (c *call) downloadAppliance() (any, error) {
	template := c.param("template")
	a := c.host().appliances()[template]
	if a == nil {
		return nil, badParam("template", "no such template")
	}
	st, err := c.storage()
	if err == nil {
		err = st.ready()
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(st.Content, "vztmpl") {
		return nil, die("storage '%s' does not support templates", st.Name)
	}
	return c.startTask("download", template, func(w worker) error {
		target := st.path("vztmpl/" + template)
		w.log("downloading %s to %s", a["location"], target)
		algorithm := "sha512"
		if a["sha512sum"] == "" {
			algorithm = "md5"
		}
		want := a[algorithm+"sum"]
		if old := st.volumes["vztmpl/"+template]; old != nil {
			return w.keepFile(old, target, algorithm, want)
		}
		data, err := w.fetch(a["location"], target)
		if err != nil {
			return err
		}
		if err := w.verify(data, algorithm, want); err != nil {
			return err
		}
		st.putFile("vztmpl", template, data)
		w.log("download of '%s' to '%s' finished", a["location"], target)
		return nil
	})
}
