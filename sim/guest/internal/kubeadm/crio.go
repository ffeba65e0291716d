package kubeadm

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/systemd"
)

// Where the runtimes listen (kubeadm's constants/constants_unix.go).
const (
	containerdSocket = "unix:///run/containerd/containerd.sock"
	crioSocket       = "unix:///var/run/crio/crio.sock"
)

// services are the units that listen there.
func services() map[string]string {
	return map[string]string{containerdSocket: "containerd.service", crioSocket: "crio.service"}
}

// listens reports whether a runtime answers at a socket.
func listens(s *machine.System, socket string) bool { return systemd.Active(s, services()[socket]) }

// handlers are those of a CRI-O that runs, by their names.
type handlers struct{ by map[string]map[string]string }

// handlerKeys are the keys of a handler that are played; CRI-O ignores one that it does not know.
func handlerKeys() []string {
	return []string{"runtime_path", "runtime_type", "runtime_root", "monitor_path", "monitor_env", "allowed_annotations"}
}

// readHandlers reads all files of CRI-O's folder in their order, the last one wins (pkg/config/config.go,
// UpdateFromPath).
func readHandlers(v *disk.View) (all map[string]map[string]string, fallback string, err error) {
	const dir = "/etc/crio/crio.conf.d"
	all, fallback = map[string]map[string]string{}, "crun"
	entries, _ := v.ReadDir(dir)
	for _, e := range entries {
		text, _ := v.ReadFile(path.Join(dir, e.Name()))
		section := ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			key, value, is := strings.Cut(line, " = ")
			value = strings.Trim(value, `"`)
			name, isHandler := strings.CutPrefix(section, "crio.runtime.runtimes.")
			switch {
			case line == "" || strings.HasPrefix(line, "#"):
			case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
				section = strings.Trim(line, "[]")
				if name, ok := strings.CutPrefix(section, "crio.runtime.runtimes."); ok && all[name] == nil {
					all[name] = map[string]string{}
				}
			case is && isHandler && slices.Contains(handlerKeys(), key):
				all[name][key] = value
			case is && section == "crio.runtime" && key == "default_runtime":
				fallback = value
			case is && section == "crio.runtime" && key == "cgroup_manager" && value == "systemd":
			case is && section == "crio.image" && key == "signature_policy":
			default:
				return nil, "", fmt.Errorf("%s: %q in %q is not simulated", e.Name(), line, section)
			}
		}
	}
	return all, fallback, nil
}

// IsCRIO reports whether a service is CRI-O.
func IsCRIO(argv []string) bool { return path.Base(argv[0]) == "crio" }

// StartCRIO is CRI-O's service. A handler whose runtime is not there when it starts is ignored until the next start, and
// without the default one it does not start (ValidateRuntimes).
func StartCRIO(_ context.Context, s *machine.System, unit string, argv, _ []string) (stop func(), code int) {
	v := s.Root()
	fail := func(format string, args ...any) (func(), int) {
		s.Log(unit, "level=fatal msg=\"validating runtime config: "+format+"\"", args...)
		return nil, 1
	}
	if _, err := v.Stat(argv[0]); err != nil {
		return nil, systemd.ExitExec
	}
	all, fallback, err := readHandlers(v)
	if err != nil {
		return fail("%v", err)
	}
	if all[fallback] == nil {
		return fail("default_runtime set to %q, but no runtime entry table [crio.runtime.runtimes.%[1]s] was found", fallback)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h := all[name]
		if t := h["runtime_type"]; t != "" && t != "oci" {
			return fail("the runtime_type %q of %q is not simulated", t, name)
		}
		if _, err := v.Stat(h["runtime_path"]); err != nil {
			if name == fallback {
				return fail("runtime validation: invalid runtime_path for runtime '%s': stat %s: no such file or directory", name, h["runtime_path"])
			}
			s.Log(unit, "level=warning msg=\"Runtime handler %q is being ignored due to: invalid runtime_path for runtime '%[1]s': stat %s: no such file or directory\"", name, h["runtime_path"])
			delete(all, name)
			continue
		}
		if _, err := v.Stat(h["monitor_path"]); err != nil {
			return fail("failed to translate monitor fields for runtime %s: invalid conmon path: stat %s: no such file or directory", name, h["monitor_path"])
		}
	}
	machine.StateOf[handlers](s).by = all
	return func() { machine.StateOf[handlers](s).by = nil }, 0
}

// runCRIO is crio status config, without what is not of handlers.
func runCRIO(_ context.Context, p *machine.Proc) int {
	if !slices.Equal(p.Args[1:], []string{"status", "config"}) {
		return p.Fail("only crio status config is simulated")
	}
	if p.User.UID != 0 || !systemd.Active(p.Sys, "crio.service") {
		return p.Fail("Get \"http://unix/config\": dial unix /var/run/crio/crio.sock: connect: no such file or directory")
	}
	all := machine.StateOf[handlers](p.Sys).by
	p.Printf("[crio]\n  [crio.runtime]\n    [crio.runtime.runtimes]\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p.Printf("      [crio.runtime.runtimes.%s]\n        runtime_path = %q\n", name, all[name]["runtime_path"])
	}
	return 0
}

// nvidiaRuntime is what the runtime of a node runs for its handler nvidia; "": it has none. containerd looks for the
// program when a pod asks for it, CRI-O at its start.
func (n *node) nvidiaRuntime() string {
	v, program := n.sys.Root(), ""
	if n.socket == crioSocket {
		program = machine.StateOf[handlers](n.sys).by["nvidia"]["runtime_path"]
	} else if config, _ := v.ReadFile("/etc/containerd/config.toml"); strings.Contains(string(config), ".runtimes.nvidia.options]") {
		program = "/usr/bin/nvidia-container-runtime"
	}
	if _, err := v.Stat(program); err != nil {
		return ""
	}
	if n.socket == crioSocket { // which has no low-level runtime in PATH of its own
		if _, err := v.Stat("/usr/bin/runc"); err != nil {
			return ""
		}
	}
	return program
}
