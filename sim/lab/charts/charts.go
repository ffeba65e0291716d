package charts

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

//go:embed all:cert-manager all:ceph-csi-cephfs all:cilium all:csi-driver-nfs all:dcgm-exporter all:fleet all:fleet-crd all:gpu-operator
//go:embed all:jupyterhub all:kube-prometheus-stack all:kueue all:local-path-provisioner all:longhorn all:metallb all:rancher all:velero
var files embed.FS

// Files are the unpacked charts, a folder each.
func Files() fs.FS { return files }

// Write writes the charts to dir, which it recreates without files of an older lab.
func Write(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("charts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("charts: %w", err)
	}
	if err := os.CopyFS(dir, files); err != nil {
		return fmt.Errorf("charts: %w", err)
	}
	return nil
}

// Of returns the files of a chart, by their names in its folder.
func Of(name string) (map[string][]byte, error) {
	out := map[string][]byte{}
	if !fs.ValidPath(name) || path.Base(name) != name {
		return nil, fmt.Errorf("the lab has no chart %q", name)
	}
	err := fs.WalkDir(files, name, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		out[strings.TrimPrefix(at, name+"/")], err = files.ReadFile(at)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the lab has no chart %q: %w", name, err)
	}
	return out, nil
}
