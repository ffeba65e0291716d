package apt

import (
	"path"
	"regexp"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/archive"
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// aptSource is one archive of /etc/apt.
type aptSource struct {
	uri, key string
	trusted  bool
}

// listFile is the name of an archive's index in /var/lib/apt/lists.
func (s aptSource) listFile() string {
	u := strings.TrimSuffix(s.uri, "/")
	if i := strings.Index(u, "://"); i >= 0 {
		u = u[i+3:]
	}
	return strings.ReplaceAll(u, "/", "_") + "_InRelease"
}

// has reports whether the archive is the one of that name; mirrors count.
func (s aptSource) has(origin string) bool {
	switch origin {
	case archive.Toolkit, archive.NVIDIA, archive.Kubernetes, archive.CRIO:
		return strings.Contains(s.uri, origin)
	}
	return strings.Contains(s.uri, origin) && !strings.Contains(s.uri, archive.Toolkit) && !strings.Contains(s.uri, archive.NVIDIA) && !strings.Contains(s.uri, archive.Kubernetes) && !strings.Contains(s.uri, archive.CRIO)
}

var oneLine = regexp.MustCompile(`^deb\s+(?:\[([^\]]*)\]\s+)?(\S+)`)

// sources reads sources.list, *.list and *.sources (deb822).
func sources(v *disk.View) []aptSource {
	files := []string{"/etc/apt/sources.list"}
	entries, _ := v.ReadDir("/etc/apt/sources.list.d")
	for _, e := range entries {
		files = append(files, "/etc/apt/sources.list.d/"+e.Name())
	}
	var out []aptSource
	for _, file := range files {
		data, err := v.ReadFile(file)
		if err != nil {
			continue
		}
		switch path.Ext(file) {
		case ".list":
			for _, line := range disk.Lines(data) {
				m := oneLine.FindStringSubmatch(strings.TrimSpace(line))
				if m == nil {
					continue
				}
				s := aptSource{uri: m[2]}
				for _, o := range strings.Fields(m[1]) {
					key, value, _ := strings.Cut(o, "=")
					s.set(key, value)
				}
				out = append(out, s)
			}
		case ".sources":
			for stanza := range strings.SplitSeq(string(data), "\n\n") {
				var s aptSource
				for line := range strings.SplitSeq(stanza, "\n") {
					key, value, _ := strings.Cut(line, ":")
					s.set(key, strings.TrimSpace(value))
				}
				for _, uri := range strings.Fields(s.uri) {
					out = append(out, aptSource{uri, s.key, s.trusted})
				}
			}
		}
	}
	return out
}

func (s *aptSource) set(key, value string) {
	switch strings.ToLower(key) {
	case "uris":
		s.uri = value
	case "signed-by":
		s.key = value
	case "trusted":
		s.trusted = value == "yes"
	}
}

// ProxyFile is where cloud-init puts apt's proxies.
const ProxyFile = "/etc/apt/apt.conf.d/90cloud-init-aptproxy"
