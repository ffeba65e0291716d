package cloud

import (
	"errors"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/apt"
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
	"github.com/cps-gpu/homelab/sim/guest/internal/yamlvalue"
)

// aptSources is apt: proxy, mirror, further sources with their keys.
func (c *Run) aptSources() {
	settings, ok := c.user["apt"].(map[string]any)
	if !ok {
		return
	}
	var proxies []string
	for _, key := range []string{"proxy", "http_proxy", "https_proxy"} {
		option := "Acquire::http::Proxy"
		if key == "https_proxy" {
			option = "Acquire::https::Proxy"
		}
		if url := yamlvalue.Text(settings[key]); url != "" {
			proxies = append(proxies, option+" \""+url+"\";\n")
		}
	}
	if len(proxies) > 0 {
		c.v.Save(apt.ProxyFile, strings.Join(proxies, ""), 0o644)
	}
	if conf := yamlvalue.Text(settings["conf"]); conf != "" {
		c.v.Save("/etc/apt/apt.conf.d/94cloud-init-config", conf, 0o644)
	}
	for _, e := range yamlvalue.List(settings["primary"]) {
		if m, ok := e.(map[string]any); ok && yamlvalue.Text(m["uri"]) != "" {
			o := image.DistroOf(c.s.Root())
			security := o.Security
			for _, e := range yamlvalue.List(settings["security"]) {
				if m, ok := e.(map[string]any); ok && security != "" {
					security = yamlvalue.Text(m["uri"])
				}
			}
			c.v.Save(o.SourcesFile(), o.Sources(yamlvalue.Text(m["uri"]), security), 0o644)
		}
	}
	sources, _ := settings["sources"].(map[string]any)
	for name, e := range sources {
		if s, ok := e.(map[string]any); ok {
			c.aptSource(name, s)
		}
	}
}

func (c *Run) aptSource(name string, s map[string]any) {
	base := strings.TrimSuffix(name, ".list")
	keyFile := "/etc/apt/cloud-init.gpg.d/" + base + ".gpg"
	switch key := yamlvalue.Text(s["key"]); {
	case strings.Contains(key, "BEGIN PGP PUBLIC KEY"):
		c.v.Save(keyFile, key, 0o644)
	case key != "":
		c.fail("('apt_configure', ValueError('no valid OpenPGP data found'))")
		return
	case yamlvalue.Text(s["keyid"]) != "" && c.s.Config.Internet != nil:
		c.v.Save(keyFile, "key "+yamlvalue.Text(s["keyid"])+"\n", 0o644)
	}
	line := yamlvalue.Text(s["source"])
	if line == "" {
		return
	}
	line = strings.NewReplacer("$KEY_FILE", keyFile, "$RELEASE", image.DistroOf(c.s.Root()).Release, "$MIRROR", image.DistroOf(c.s.Root()).Mirror).Replace(line)
	file := yamlvalue.Text(s["filename"])
	if file == "" {
		file = name
	}
	if !strings.HasSuffix(file, ".list") {
		file += ".list"
	}
	if !strings.HasPrefix(file, "/") {
		file = "/etc/apt/sources.list.d/" + file
	}
	c.v.Save(file, line+"\n", 0o644)
}

var errPackages = errors.New("Failed to install packages")

// packages is package_update, package_upgrade and packages.
func (c *Run) packages() {
	var names []string
	for _, e := range yamlvalue.List(c.user["packages"]) {
		switch e := e.(type) {
		case map[string]any:
			for _, inner := range yamlvalue.List(e["apt"]) {
				names = append(names, packageName(inner))
			}
		default:
			names = append(names, packageName(e))
		}
	}
	upgrade := c.user["package_upgrade"] == true
	if len(names) == 0 && !upgrade && c.user["package_update"] != true {
		return
	}
	p := c.session()
	run := func(args ...string) bool {
		return p.Start(c.s.Context(), append([]string{"apt-get", "--assume-yes", "--quiet"}, args...)...) == 0
	}
	if !run("update") {
		c.warn("Failed to update package sources") // and goes on with what there is
	}
	if upgrade && !run("dist-upgrade") {
		c.fail("('package_update_upgrade_install', RuntimeError('Package upgrade failed'))")
	}
	if len(names) > 0 && !run(append([]string{"install"}, names...)...) && c.s.Context().Err() == nil {
		c.fail("('package_update_upgrade_install', RuntimeError(\"%v: %s\"))", errPackages, c.tail())
	}
	if c.user["package_reboot_if_required"] == true && c.s.Kernel() != c.s.BootKernel() {
		c.s.PowerOff(true)
	}
}

// tail is apt's last word, for the error.
func (c *Run) tail() string {
	data, _ := c.v.ReadFile(cloudOutput)
	all := disk.Lines(data)
	for _, line := range slices.Backward(all) {
		if strings.HasPrefix(line, "E:") {
			return line
		}
	}
	return ""
}

// packageName reads "name", or [name, version].
func packageName(e any) string {
	f := yamlvalue.Texts(e)
	if len(f) == 2 {
		return f[0] + "=" + f[1]
	}
	return yamlvalue.Text(e)
}
