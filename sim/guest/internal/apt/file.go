package apt

import (
	"path"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// readFiles notes the packages whose files arguments of apt-get install name, which contain a slash, and returns the
// arguments with the packages in their place. One that is missing or has other content ends apt-get before anything else:
// seen of apt 2.6.1.
func (a *apt) readFiles(args []string) (packages []string, problem string) {
	a.files = map[string]string{}
	for _, arg := range args {
		if !strings.HasPrefix(arg, "/") && !strings.HasPrefix(arg, "./") {
			packages = append(packages, arg)
			continue
		}
		file := arg
		if !path.IsAbs(file) {
			file = path.Join(a.p.Dir, file)
		}
		data, err := a.fs.ReadFile(file)
		name, version, ok := disk.ArchiveOf(path.Base(file), data)
		switch {
		case err != nil:
			return nil, "E: Unsupported file " + arg + " given on commandline"
		case !ok:
			return nil, "E: Invalid archive signature\nE: Could not read meta data from " + file + "\nE: The package lists or status file could not be parsed or opened."
		}
		a.files[name] = version
		packages = append(packages, name+"="+version)
	}
	return packages, ""
}

// fetches reports whether some package comes from an archive.
func (a *apt) fetches(want map[string]string) bool {
	for name, version := range want {
		if a.files[name] != version {
			return true
		}
	}
	return false
}
