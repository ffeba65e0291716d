package session

import (
	"os"
	"path/filepath"

	"github.com/cps-gpu/homelab/internal/labctl"
)

// home is the folder with the cluster's file, relative to the current one: "" for the current
// folder itself, and if no folder above it, up to that of go.mod, has the file. A cluster.yaml
// outside the module is not ours.
func home() string {
	nearest := ""
	for up := "."; ; up = filepath.Join(up, "..") {
		if up != "." && nearest == "" && isFile(filepath.Join(up, DefaultSpec)) {
			nearest = up
		}
		switch at, err := filepath.Abs(up); {
		case up == "." && isFile(DefaultSpec), err != nil, at == filepath.Dir(at):
			return ""
		case isFile(filepath.Join(up, "go.mod")):
			return nearest
		}
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// LabDir is the folder of the lab's state, beside the cluster's file.
func LabDir() string { return filepath.Join(home(), labctl.DefaultDir) }
