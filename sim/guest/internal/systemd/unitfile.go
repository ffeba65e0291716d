package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// unitFile is a unit as its files describe it, section by section.
type unitFile struct {
	path   string
	masked bool
	values map[string][]string // "Service.ExecStart" and so on
}

func (f *unitFile) get(key string) string {
	v := f.values[key]
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}

// unitDirs are where systemd looks, the first find counts.
func unitDirs() []string {
	return []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"}
}

var errNoUnit = errors.New("not found")

// UnitName adds ".service" where no type is given.
func UnitName(name string) string {
	if path.Ext(name) == "" {
		return name + ".service"
	}
	return name
}

func load(v *disk.View, name string) (*unitFile, error) {
	for _, dir := range unitDirs() {
		at := dir + "/" + name
		e, err := v.Lstat(at)
		if err != nil {
			continue
		}
		if e.Mode()&fs.ModeSymlink != 0 && e.Target() == "/dev/null" {
			return &unitFile{path: at, masked: true}, nil
		}
		data, err := v.ReadFile(at)
		if err != nil {
			continue
		}
		f := &unitFile{path: at, values: map[string][]string{}}
		f.parse(data)
		for _, dir := range slices.Backward(unitDirs()) {
			drops, _ := v.ReadDir(dir + "/" + name + ".d")
			for _, d := range drops {
				if data, err := v.ReadFile(dir + "/" + name + ".d/" + d.Name()); err == nil && strings.HasSuffix(d.Name(), ".conf") {
					f.parse(data)
				}
			}
		}
		return f, nil
	}
	return nil, errNoUnit
}

func (f *unitFile) parse(data []byte) {
	section, pending := "", ""
	for _, line := range disk.Lines(data) {
		line = strings.TrimSpace(pending + line)
		pending = ""
		if strings.HasSuffix(line, `\`) {
			pending = strings.TrimSuffix(line, `\`) + " "
			continue
		}
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = line[1 : len(line)-1]
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		key = section + "." + strings.TrimSpace(key)
		if value = strings.TrimSpace(value); value == "" {
			delete(f.values, key) // an empty value resets a list
			continue
		}
		f.values[key] = append(f.values[key], value)
	}
}

// Enable links a unit where its section Install says.
func Enable(s *machine.System, name string) error {
	v := s.Root()
	f, err := load(v, name)
	if err != nil {
		return fmt.Errorf("Failed to enable unit: Unit file %s does not exist.", name)
	}
	if f.masked {
		return fmt.Errorf("Failed to enable unit: Unit file %s is masked.", f.path)
	}
	for _, target := range strings.Fields(f.get("Install.WantedBy")) {
		link := "/etc/systemd/system/" + target + ".wants/" + name
		if _, err := v.Lstat(link); err == nil {
			continue
		}
		if err := v.MkdirAll(path.Dir(link), 0o755); err != nil {
			return err
		}
		if err := v.Symlink(f.path, link); err != nil {
			return err
		}
	}
	return nil
}

// wants returns the links that enabled units have.
func wants(v *disk.View, name string) []string {
	var out []string
	dirs, _ := v.ReadDir("/etc/systemd/system")
	for _, d := range dirs {
		if !strings.HasSuffix(d.Name(), ".wants") {
			continue
		}
		links, _ := v.ReadDir("/etc/systemd/system/" + d.Name())
		for _, l := range links {
			if name == "" || l.Name() == name {
				out = append(out, "/etc/systemd/system/"+d.Name()+"/"+l.Name())
			}
		}
	}
	return out
}
