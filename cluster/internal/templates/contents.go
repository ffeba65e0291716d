package templates

import (
	"fmt"
	"strings"
	"time"
)

// Contents is what a template contains, as its description says.
type Contents struct {
	Image    string // the file's name
	SHA256   string
	SHA512   string
	Packages []string // in addition to the image's own
	Driver   string   // e.g. 580-server-open
	Toolkit  string
	K3s      string
	Made     string // the day on which baking started: 2006-01-02
}

// line is one of the lines of a description.
type line struct{ key, value string }

func (c Contents) lines() []line {
	return []line{
		{"image", c.Image}, {"sha256", c.SHA256}, {"sha512", c.SHA512}, {"packages", strings.Join(c.Packages, " ")},
		{"driver", c.Driver}, {"toolkit", c.Toolkit}, {"k3s", c.K3s}, {"made", c.Made},
	}
}

// describe writes the description of a template; Proxmox shows it as Markdown.
func (c Contents) describe(cluster string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Nodes of the cluster %s are cloned from this template. homelab made it, and removes it when it is not needed.\n", cluster)
	for _, l := range c.lines() {
		if l.value != "" {
			fmt.Fprintf(&b, "\n- %s: %s", l.key, l.value)
		}
	}
	return b.String()
}

// readContents reads what describe wrote. Missing fields stay empty.
func readContents(description string) Contents {
	said := map[string]string{}
	for text := range strings.Lines(description) {
		if key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "- "), ": "); ok {
			said[key] = strings.TrimSpace(value)
		}
	}
	return Contents{
		Image: said["image"], SHA256: said["sha256"], SHA512: said["sha512"], Packages: strings.Fields(said["packages"]),
		Driver: said["driver"], Toolkit: said["toolkit"], K3s: said["k3s"], Made: said["made"],
	}
}

// String names the parts in a few words: "K3s v1.36.5+k3s1, driver 580-server-open,
// toolkit 1.20.1-1, on ubuntu-24.04-server-cloudimg-amd64.img".
func (c Contents) String() string {
	var parts []string
	for _, p := range []line{{"K3s", c.K3s}, {"driver", c.Driver}, {"toolkit", c.Toolkit}} {
		if p.value != "" {
			parts = append(parts, p.key+" "+p.value)
		}
	}
	out := strings.Join(parts, ", ")
	switch {
	case c.Image != "" && out != "":
		return out + ", on " + c.Image
	case c.Image != "":
		return c.Image
	}
	return out
}

// today is the current day in the format of descriptions.
func today() string { return time.Now().UTC().Format(time.DateOnly) }
