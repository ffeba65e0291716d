package session

import (
	"os"
	"path/filepath"

	"github.com/cps-gpu/homelab/internal/labctl"
)

// home is the folder with the cluster's file, relative to the current one: the nearest, up to that of
// go.mod; without a file, the nearest with a lab. It is "" for the current folder itself, and if
// there is none. A cluster.yaml outside the module is not ours.
func home() string {
	var file, lab []string
	for up := "."; ; up = filepath.Join(up, "..") {
		if isFile(filepath.Join(up, DefaultSpec)) {
			file = append(file, up)
		}
		if isFolder(filepath.Join(up, labctl.DefaultDir)) {
			lab = append(lab, up)
		}
		switch at, err := filepath.Abs(up); {
		case len(file) > 0 && file[0] == ".", err != nil, at == filepath.Dir(at):
			return ""
		case !isFile(filepath.Join(up, "go.mod")):
			continue
		}
		all := append(file, lab...)
		if len(all) == 0 || all[0] == "." {
			return ""
		}
		return all[0]
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// LabDir is the folder of the lab's state, beside the cluster's file.
func LabDir() string { return filepath.Join(home(), labctl.DefaultDir) }
